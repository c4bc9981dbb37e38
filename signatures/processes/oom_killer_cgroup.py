"""The kernel's OOM killer ended a process because its memory cgroup was full.

The container, Slurm step or systemd slice has a memory limit and the job reached it: the host
itself may have plenty. The killed process prints nothing; its launcher reports signal 9 or exit
code 137, and the other ranks hang or see a closed connection.

The pid is of the host's namespace. Memory of DataLoader workers, pinned memory and files in
/dev/shm count as well.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="oom-killer-cgroup",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="The kernel killed {task} (pid {pid}): its cgroup was out of memory",
    when=log(
        (
            r"Memory cgroup out of memory: Kill(?:ed)? process (?P<pid>\d+) "
            r"\((?P<task>[^)p][^)]*|p[^)t][^)]*|pt_[^)d][^)]*)\)"
        ),
        (
            r"oom-kill:constraint=CONSTRAINT_MEMCG,.*task=(?P<task>[^,p][^,]*|p[^,t][^,]*|"
            r"pt_[^,d][^,]*),pid=(?P<pid>\d+)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "This process was killed because its container or job step reached its memory limit. "
        "It could say nothing, and the other ranks wait for it."
    ),
    confidence=0.96,
    remedies=(
        (
            "Raise the memory limit (--mem for Slurm, resources.limits.memory in Kubernetes, "
            "--memory for docker)."
        ),
        (
            "Use less: fewer DataLoader workers, a smaller prefetch_factor, load checkpoints "
            "with mmap=True and not on every rank at once."
        ),
    ),
    next_steps=(
        "cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory.max  # in the container",
        "dmesg -T | grep -A60 'invoked oom-killer'  # the table: who held how much?",
    ),
    matches=(
        (
            "[81234.5] Memory cgroup out of memory: Killed process 48213 (python3) "
            "total-vm:123456kB, anon-rss:98765kB, file-rss:432kB, shmem-rss:1024kB, UID:1000 "
            "pgtables:2345kB oom_score_adj:985"
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0-1,o"
            "om_memcg=/slurm/job_1,task_memcg=/slurm/job_1/step_0,task=pt_main_thread,pid=48213"
            ",uid=1000"
        ),
        "Memory cgroup out of memory: Kill process 4711 (python) score 1000 or sacrifice child",
    ),
    misses=(
        "[81234.5] Out of memory: Killed process 48213 (python3) total-vm:123456kB",
        "Memory cgroup out of memory: Killed process 999 (pt_data_worker) total-vm:1kB",
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
