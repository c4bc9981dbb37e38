"""The kernel's OOM killer ended a process because the whole host was full.

It picks the largest process, which need not be the one that grew: a neighbour on the same host,
the page-locked buffers of several ranks, or files in /dev/shm may have filled the memory. The
killed process prints nothing; its launcher reports signal 9 or exit code 137.

The pid is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="oom-killer-global",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="The kernel killed {task} (pid {pid}): the host was out of memory",
    when=log(
        (
            r"\bOut of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? process "
            r"(?P<pid>\d+) \((?P<task>[^)p][^)]*|p[^)t][^)]*|pt_[^)d][^)]*)\)"
        ),
        (
            r"oom-kill:constraint=CONSTRAINT_(?:NONE|CPUSET|"
            r"MEMORY_POLICY),.*task=(?P<task>[^,p][^,]*|p[^,t][^,]*|"
            r"pt_[^,d][^,]*),pid=(?P<pid>\d+)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "This process was killed because its host ran out of memory. It could say nothing, and "
        "the other ranks wait for it."
    ),
    confidence=0.96,
    remedies=(
        (
            "Use less host memory: fewer DataLoader workers, no copy of the data set per rank, "
            "load checkpoints with mmap=True and not on every rank at once."
        ),
        (
            "Look for other jobs on the host; give jobs memory limits so that they cannot hurt "
            "each other."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -A60 'invoked oom-killer'  # the table: who held how much?",
        "free -g; df -h /dev/shm",
    ),
    matches=(
        (
            "[Tue Jul  1 13:06:53 2026] Out of memory: Killed process 48213 (python3) "
            "total-vm:983456kB, anon-rss:598765kB, file-rss:0kB, shmem-rss:0kB, UID:1000"
        ),
        (
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,glob"
            "al_oom,task_memcg=/user.slice,task=python3,pid=48213,uid=1000"
        ),
        "kernel: Out of memory: Kill process 4711 (python) score 912 or sacrifice child",
    ),
    misses=(
        "[81234.5] Memory cgroup out of memory: Killed process 48213 (python3) total-vm:123456kB",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ),
    outranks=(
        "ras-process-missing",
        "failure-row-sigkill",
        "launcher-saw-sigkill",
        "launcher-child-sigkill",
        "spawned-process-sigkill",
        "oom-killer-reaper",
        "mpirun-rank-killed",
        "launcher-exit-code",
    ),
)
