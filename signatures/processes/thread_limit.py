"""A process hits the limit on the number of threads and processes.

Eight ranks with many DataLoader workers, each with its own OpenMP or OpenBLAS pool, reach a
container's pids limit quickly. The failure often hits one rank, the last to start its workers.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="thread-limit",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} may not start another process or thread",
    when=log(
        r"RuntimeError: can't start new thread",
        r"BlockingIOError: \[Errno 11\] Resource temporarily unavailable",
        r"fork: retry: Resource temporarily unavailable",
        r"OpenBLAS blas_thread_init: pthread_create failed for thread",
        r"libgomp: Thread creation failed: Resource temporarily unavailable",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The limit on threads or processes is reached (ulimit -u, or the container's pids "
        "limit). Whatever should have been started is missing, so this process fails or waits "
        "for it."
    ),
    confidence=0.85,
    everywhere="not-distributed",
    remedies=(
        "Set OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and MKL_NUM_THREADS to a small number.",
        "Use fewer DataLoader workers, or raise the pids limit (--pids-limit, ulimit -u).",
    ),
    next_steps=(
        "ulimit -u; cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids.current  # in the container",
    ),
    links=("https://docs.kernel.org/admin-guide/cgroup-v2.html",),
    matches=(
        "RuntimeError: can't start new thread",
        (
            "OpenBLAS blas_thread_init: pthread_create failed for thread 63 of 64: Resource "
            "temporarily unavailable"
        ),
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "bash: fork: retry: Resource temporarily unavailable",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
    ),
    misses=("HTTP 503: Resource temporarily unavailable",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
