"""The DataLoader's pin-memory thread ended, so no batch arrives any more.

Pinned memory could not be allocated (the limit on locked memory, host memory used up), or the
GPU of this process failed. The exception of the thread stands before.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="pin-memory-thread-ended",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="The pin-memory thread of {who} ended",
    when=log(
        r"RuntimeError: Pin memory thread exited unexpectedly",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The thread that copies batches into pinned memory is gone, so no batch reaches the "
        "training loop."
    ),
    confidence=0.8,
    remedies=("Check host memory, ulimit -l, and the GPU of that rank; try pin_memory=False.",),
    next_steps=("ulimit -l; free -g  # on that host",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "RuntimeError: Pin memory thread exited unexpectedly",
        "[rank2]: RuntimeError: Pin memory thread exited unexpectedly",
    ),
    misses=('    raise RuntimeError("Pin memory thread exited unexpectedly")',),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
