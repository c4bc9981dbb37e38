"""A thread or tool of the NVIDIA driver is in uninterruptible sleep.

nvidia-smi, nv_queue or another driver thread, or a process in a call of the driver, has waited
for the GPU for minutes: its firmware hangs (Xid 119), it fell off the bus (Xid 79) or the driver
deadlocked. Every CUDA call on that host may block the same way.

It is a fault of the host; which rank suffers the line does not say.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

TASK = r"INFO: task (?P<task>nv[^ ]*):\d+ blocked (?:in I/O wait )?for more than \d+ seconds"
BLOCKED = (
    r'"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message',
    r"\btask:\S+\s+state:D stack:",
)
IN_DRIVER = r"\b(?P<task>\w+)(?:\.\w+)*\+0x[0-9a-f]+/0x[0-9a-f]+ \[nvidia(?:_uvm|_drm)?\]"


def when(case: Case) -> Iterable[Hit]:
    blocked, in_driver = queries.logged(case, *BLOCKED), queries.logged(case, IN_DRIVER)
    both = [queries.merge(hit, other) for hit in blocked for other in in_driver]
    return queries.merged(queries.logged(case, TASK), both)


SIGNATURE = Signature(
    id="kernel-hung-task-nvidia",
    category="gpu-hardware-xid",
    level="machine",
    title="The NVIDIA driver is stuck in the kernel ({task})",
    when=when,
    patterns=(TASK, *BLOCKED, IN_DRIVER),
    means="The GPU driver of this host hangs, so processes that use its GPUs block with it.",
    confidence="likely",
    remedies=("Take the host out of the job and reboot it; such processes cannot be killed.",),
    next_steps=("dmesg -T | grep -E 'NVRM|Xid'  # on that host",),
    matches=(
        "[ 1451.2] INFO: task nvidia-smi:900 blocked for more than 120 seconds.",
        "[ 1451.2] INFO: task nv_queue:1201 blocked for more than 120 seconds.",
        '[ 1451.2] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        "[  +0.000049] task:python3.11      state:D stack:    0 pid:15277 ppid: 15257",
        "[  +0.000037]  uvm_ioctl+0x13e0/0x16f0 [nvidia_uvm]",
    ),
    misses=(
        "[  +0.000049] task:python3.11      state:S stack:    0 pid:15277 ppid: 15257",
        "[  +0.000037]  nfs4_file_open+0x13e0/0x16f0 [nfsv4]",
    ),
)
