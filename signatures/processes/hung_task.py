"""The kernel reports a task in uninterruptible sleep.

The process is in a system call that does not return, which no signal can end: mostly reading or
writing on NFS, Lustre, a full or failing disk. Its call trace follows in the kernel log and
names the file system.

With GPU drivers in the trace it is the driver instead (kernel-hung-task-nvidia for its own
threads).
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="hung-task",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="{task} (pid {pid}) has been stuck in the kernel for more than {seconds} seconds",
    when=log(
        (
            r"INFO: task (?P<task>[a-mo-zA-Z_][^ ]*|n[^ v][^ ]*):(?P<pid>\d+) blocked (?:in I/O "
            r"wait )?for more than (?P<seconds>\d+) seconds"
        ),
        blames=Blames.NAMED,
    ),
    unless=log(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[nvidia(?:_uvm|_drm)?\]"),
    means=(
        "This process waits in the kernel for a device or file system that does not answer; it "
        "cannot reach the collective in which the others wait."
    ),
    confidence=0.8,
    remedies=(
        (
            "Restore the file system or device that the call trace names; the process goes on "
            "or must be ended with its host."
        ),
        (
            "Keep checkpoints and data off the mount that hangs; use soft or timeo mount "
            "options with care."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -A25 'blocked for more than'  # in nfs_, ll_, xfs_, nvme?",
        "cat /proc/PID/stack /proc/PID/wchan; ls -l /proc/PID/fd  # as root: which file?",
    ),
    matches=(
        "[ 1451.2] INFO: task python3:48213 blocked for more than 120 seconds.",
        (
            "Jul  1 13:06:53 node7 kernel: INFO: task pt_data_worker:48999 blocked for more "
            "than 241 seconds."
        ),
        "INFO: task python:4711 blocked in I/O wait for more than 122 seconds.",
    ),
    misses=(
        "[  +0.000037]  uvm_ioctl+0x13e0/0x16f0 [nvidia_uvm]",
        "[ 1451.2] INFO: task nvidia-smi:900 blocked for more than 120 seconds.",
        "[ 1451.2] INFO: rcu_sched self-detected stall on CPU",
    ),
    outranks=(
        "ras-process-missing",
        "launcher-exit-code",
    ),
)
