"""The kernel's watchdog found a CPU that does not come back.

A process spins inside the kernel: a driver bug, memory reclaim under pressure, a virtual
machine that was not scheduled. Other processes on that CPU, helper threads of ranks among them,
stand still.

With kworker or swapper as the task the host as a whole is ill.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-soft-lockup",
    category="rank-spinning",
    kind=Kind.CAUSE,
    title="{task} (pid {pid}) has held a CPU in the kernel for {seconds} seconds",
    when=log(
        (
            r"BUG: soft lockup - CPU#\d+ stuck for (?P<seconds>\d+)s! "
            r"\[(?P<task>[^\]]+):(?P<pid>\d+)\]"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "A CPU of this host is stuck in the kernel with this process; what needs that CPU does "
        "not go on."
    ),
    confidence=0.6,
    remedies=(
        (
            "Take the host out of the job and reboot it; report the call trace to who "
            "maintains the kernel or driver."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -A30 'soft lockup'  # which driver is in the trace?",
        "In a virtual machine: check steal time (vmstat, top)",
    ),
    matches=(
        "[ 991.2] watchdog: BUG: soft lockup - CPU#12 stuck for 22s! [python3:48213]",
        "NMI watchdog: BUG: soft lockup - CPU#3 stuck for 67s! [kworker/3:1:771]",
    ),
    misses=("[ 991.2] watchdog: Watchdog detected hard LOCKUP on cpu 12",),
    outranks=("launcher-exit-code",),
)
