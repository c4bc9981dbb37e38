"""A CPU no longer takes part in the kernel's own work.

A hard lockup or an RCU stall: interrupts are off or a CPU is not scheduled, from hardware,
firmware, a driver, or an overcommitted hypervisor. Short stalls happen under heavy load.

No process is named; the whole host is suspect.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-cpu-stall",
    category="rank-spinning",
    kind=Kind.CAUSE,
    title="The kernel of a host stalls",
    when=log(
        r"Watchdog detected hard LOCKUP on cpu \d+",
        r"rcu: INFO: rcu_\w+ (?:detected(?: expedited)? stalls|self-detected stall) on CPU",
        r"INFO: rcu_\w+ (?:detected stalls|self-detected stall) on CPU",
        r"Kernel panic - not syncing",
    ),
    means="The kernel of this host does not make progress, and its ranks with it.",
    confidence=0.55,
    remedies=("Take the host out of the job and reboot it.",),
    next_steps=("dmesg -T  # around that time: which driver is in the trace?",),
    matches=(
        "[ 991.2] NMI watchdog: Watchdog detected hard LOCKUP on cpu 12",
        "[ 991.2] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:",
        "[ 991.2] rcu: INFO: rcu_preempt self-detected stall on CPU",
        "[ 991.2] Kernel panic - not syncing: Fatal exception in interrupt",
    ),
    misses=("[ 1.2] rcu: Hierarchical RCU implementation.",),
    outranks=("launcher-exit-code",),
)
