"""The OOM killer ended a DataLoader worker, not the rank itself.

The rank stays alive: it raises "DataLoader worker (pid ...) is killed by signal: Killed", or
waits for the worker if it does not notice. Workers grow by copying the data set's Python
objects (copy on write through reference counts) and by prefetching.

The pid is the worker's, of the host's namespace; its parent is the rank.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="oom-killer-dataloader",
    category="dataloader-worker-died",
    kind=Kind.CAUSE,
    title="The kernel killed a DataLoader worker (pid {pid}): out of memory",
    when=log(
        (
            r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process (?P<pid>\d+) "
            r"\((?P<task>pt_data_(?:worker|pin)[^)]*)\)"
        ),
        (
            r"oom-kill:constraint=CONSTRAINT_\w+,.*task=(?P<task>pt_data_(?:worker|"
            r"pin)[^,]*),pid=(?P<pid>\d+)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "A DataLoader worker was killed for lack of memory, so its rank gets no more batches "
        "and the others wait for that rank."
    ),
    confidence=0.95,
    remedies=(
        (
            "Use fewer workers or a smaller prefetch_factor, and keep the data set in arrays "
            "or files instead of Python lists."
        ),
        "Raise the memory limit of the container or step.",
    ),
    next_steps=(
        "Look for 'DataLoader worker (pid' in the ranks' logs",
        "dmesg -T | grep -A60 'invoked oom-killer'",
    ),
    matches=(
        (
            "Memory cgroup out of memory: Killed process 48999 (pt_data_worker) "
            "total-vm:123456kB, anon-rss:98765kB"
        ),
        "Out of memory: Killed process 48999 (pt_data_worker) total-vm:1234kB",
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a,task=pt_data_wo"
            "rker,pid=48999,uid=1000"
        ),
    ),
    misses=("Memory cgroup out of memory: Killed process 48213 (python3) total-vm:123456kB",),
    outranks=("launcher-exit-code",),
)
