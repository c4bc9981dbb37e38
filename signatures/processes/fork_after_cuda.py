"""A forked child tries to use CUDA that its parent had already initialized.

Typical: a dataset or collate function that makes CUDA tensors in DataLoader workers, or mp with
the default start method after a first CUDA call. A fork that copies a lock held by another
thread hangs silently for the same reason.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="fork-after-cuda",
    category="fork-deadlock",
    kind=Kind.CAUSE,
    title="{who} forked a process after initializing CUDA",
    when=log(
        r"Cannot re-initialize CUDA in forked subprocess",
        blames=Blames.SPEAKER,
    ),
    means=(
        "CUDA does not survive a fork. The child fails at its first CUDA call; what should have "
        "come from it never comes."
    ),
    confidence=0.8,
    remedies=(
        (
            "Use the start method 'spawn' or 'forkserver' (multiprocessing_context='spawn' for a "
            "DataLoader)."
        ),
        "Keep CUDA out of datasets and collate functions; move tensors in the main process.",
    ),
    links=("https://pytorch.org/docs/stable/notes/multiprocessing.html",),
    matches=(
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        ),
        (
            "[rank1]: RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA "
            "with multiprocessing, you must use the 'spawn' start method"
        ),
    ),
    misses=(
        (
            "DeprecationWarning: This process (pid=4711) is multi-threaded, use of fork() may "
            "lead to deadlocks in the child."
        ),
    ),
    outranks=(
        "dataloader-worker-exception",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
