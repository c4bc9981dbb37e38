"""Some ranks failed inside a distributed checkpoint, and all raise it together.

DCP collects the exceptions of all ranks and raises them everywhere, so the rank that prints it
need not be the one that failed. The tracebacks that follow are marked '(RANK n)'. A full disk,
missing rights, or a state dict that differs between ranks are usual.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="distributed-checkpoint-failed",
    category="checkpoint-stall",
    kind=Kind.CAUSE,
    title="Saving or loading the distributed checkpoint failed on rank {ranks}",
    when=log(
        r"CheckpointException ranks:dict_keys\(\[(?P<ranks>\d+(?:, \d+)*)\]\)",
        blames=Blames.NAMED,
    ),
    means=(
        "torch.distributed.checkpoint gathered the errors of all ranks: those named here failed, "
        "and every rank then raises the same exception."
    ),
    confidence=0.9,
    remedies=(
        "Read the traceback marked with that rank: space, rights, missing keys.",
        "Check that all ranks pass state dicts with the same keys.",
    ),
    next_steps=("df -h PATH; ls -ld PATH  # of the checkpoint, on that rank's host",),
    links=("https://pytorch.org/docs/stable/distributed.checkpoint.html",),
    matches=(
        (
            "torch.distributed.checkpoint.api.CheckpointException: CheckpointException "
            "ranks:dict_keys([1])"
        ),
        "CheckpointException: CheckpointException ranks:dict_keys([0, 1, 2, 3])",
    ),
    misses=("class CheckpointException(BaseException):",),
    outranks=(
        "disk-full",
        "file-system-failed",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
