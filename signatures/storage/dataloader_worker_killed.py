"""A DataLoader worker process was ended by a signal.

'Killed' is SIGKILL, mostly the kernel's out-of-memory killer, because workers copy what the
dataset holds. A segmentation fault or abort is native code in the dataset: a decoder, OpenCV,
HDF5 or a library that does not survive fork. A bus error is something else (shared memory).
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-worker-killed",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="A DataLoader worker of {who} was killed ({signal})",
    when=log(
        (
            r"DataLoader worker \(pid (?P<worker>\d+)\) is killed by signal: "
            r"(?P<signal>Killed|Segmentation fault|Aborted|Illegal instruction|Floating point "
            r"exception)"
        ),
        (
            r"ERROR: Unexpected (?P<signal>segmentation fault|floating-point exception) "
            r"encountered in worker"
        ),
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "A worker process ended by a signal ({signal}), so its batch never comes. This "
        "rank fails, and the others wait for it in their next collective."
    ),
    confidence=0.93,
    remedies=(
        (
            "For 'Killed': fewer workers, smaller prefetch_factor, or keep large data in arrays "
            "and memory maps that are not copied."
        ),
        (
            "For a crash: run with num_workers=0 to see the true error, or set "
            "multiprocessing_context='spawn'."
        ),
        "cv2.setNumThreads(0) in workers that use OpenCV.",
    ),
    next_steps=("dmesg -T | grep -i -E 'killed process|segfault'  # on that host",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "RuntimeError: DataLoader worker (pid 16404) is killed by signal: Killed. ",
        "RuntimeError: DataLoader worker (pid 1285) is killed by signal: Segmentation fault. ",
        "RuntimeError: DataLoader worker (pid 77) is killed by signal: Aborted. ",
        "ERROR: Unexpected segmentation fault encountered in worker.",
    ),
    misses=(
        (
            "RuntimeError: DataLoader worker (pid 16430) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
        "RuntimeError: DataLoader worker (pid 16430) is killed by signal: Terminated. ",
    ),
    outranks=(
        "dataloader-worker-exited",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
