"""The OOM reaper took the memory of a process that was being killed.

The line follows the one that says why (cgroup or host out of memory), which may be missing from
a short excerpt.

The pid is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="oom-killer-reaper",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="The kernel killed {task} (pid {pid}) to free memory",
    when=log(
        r"oom_reaper: reaped process (?P<pid>\d+) \((?P<task>[^)]+)\)",
        blames=Blames.NAMED,
    ),
    means=(
        "This process was killed by the kernel for lack of memory. It could say nothing, and "
        "the other ranks wait for it."
    ),
    confidence=0.93,
    remedies=(
        (
            "Raise the memory limit of the job, or use less host memory (fewer DataLoader "
            "workers, mmap=True for checkpoints)."
        ),
    ),
    next_steps=("dmesg -T | grep -B60 oom_reaper  # the table: who held how much?",),
    matches=(
        (
            "oom_reaper: reaped process 48213 (python3), now anon-rss:0kB, file-rss:0kB, "
            "shmem-rss:1024kB"
        ),
        (
            "[81234.9] oom_reaper: reaped process 4711 (pt_main_thread), now anon-rss:0kB, "
            "file-rss:65536kB, shmem-rss:0kB"
        ),
    ),
    misses=("python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=985",),
    outranks=(
        "ras-process-missing",
        "failure-row-sigkill",
        "launcher-saw-sigkill",
        "launcher-child-sigkill",
        "spawned-process-sigkill",
        "mpirun-rank-killed",
        "launcher-exit-code",
    ),
)
