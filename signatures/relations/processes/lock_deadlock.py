"""A rank waits for a lock inside its own process, often because two threads hold one each.

Two threads that take two locks in opposite order, a lock that a dead thread still holds, a
thread that holds the GIL inside a C call that never returns. The other ranks wait in their
next collective and are healthy.
"""

from whyhang.analyzer.match import Kind, Signature, waits_for_lock_of_its_own

SIGNATURE = Signature(
    id="lock-deadlock",
    category="gil-or-lock-deadlock",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {waits} for a lock of {its} own process at {where}{waiting}",
    when=waits_for_lock_of_its_own(),
    means=("{who} {is} {does}{at}{partner}. Nobody outside the process can release it."),
    confidence="strong",
    remedies=(
        "Look at every thread of {who}: which one holds the lock, and what does it wait for?",
        "Take locks in one order everywhere, and hold none while calling into a collective.",
    ),
    next_steps=("py-spy dump --native --pid {pid}  # all threads of {who}",),
)
