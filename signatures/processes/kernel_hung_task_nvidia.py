"""A thread or tool of the NVIDIA driver is in uninterruptible sleep.

nvidia-smi, nv_queue or another driver thread has waited for the GPU for minutes: its firmware
hangs (Xid 119), it fell off the bus (Xid 79) or the driver deadlocked. Every CUDA call on that
host may block the same way.

It is a fault of the host; which rank suffers the line does not say.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-hung-task-nvidia",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The NVIDIA driver is stuck in the kernel ({task})",
    when=log(
        r"INFO: task (?P<task>nv[^ ]*):\d+ blocked (?:in I/O wait )?for more than \d+ seconds",
    ),
    means="The GPU driver of this host hangs, so processes that use its GPUs block with it.",
    confidence=0.82,
    remedies=("Take the host out of the job and reboot it; such processes cannot be killed.",),
    next_steps=("dmesg -T | grep -E 'NVRM|Xid'  # on that host",),
    matches=(
        "[ 1451.2] INFO: task nvidia-smi:900 blocked for more than 120 seconds.",
        "[ 1451.2] INFO: task nv_queue:1201 blocked for more than 120 seconds.",
    ),
    misses=(
        "[ 1451.2] INFO: task nfsd:900 blocked for more than 120 seconds.",
        "[ 1451.2] INFO: task python3:48213 blocked for more than 120 seconds.",
    ),
    outranks=(
        "ras-process-missing",
        "hung-task",
        "launcher-exit-code",
    ),
)
