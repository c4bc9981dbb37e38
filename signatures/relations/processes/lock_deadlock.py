"""A rank waits for a lock inside its own process, often because two threads hold one each.

Two threads that take two locks in opposite order, a lock that a dead thread still holds, a
thread that holds the GIL inside a C call that never returns. The other ranks wait in their
next collective and are healthy.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.stacks.kinds import FILE_LOCK


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit per rank whose main thread waits for a lock; two such threads are a cycle."""
    for hit in queries.lagging(case, WaitKind.LOCK, WaitKind.GIL, alone=True):
        place = case.states[hit.members[0]].place
        if place is None or place.op == FILE_LOCK or place.main_op == "exit":
            continue
        if queries.is_shared_lock(place) and len(hit.members) > 1:
            continue
        everyone = len(hit.members) == len(case.states) > 1  # then none differs from the others
        yield replace(hit, names_culprit=hit.names_culprit and not everyone)


SIGNATURE = Signature(
    id="lock-deadlock",
    category="gil-or-lock-deadlock",
    level="program",
    title="{who} {waits} for a lock of {its} own process at {where}{waiting}",
    when=when,
    means=("{who} {is} {does}{at}{partner}. Nobody outside the process can release it."),
    confidence="strong",
    remedies=(
        "Look at every thread of {who}: which one holds the lock, and what does it wait for?",
        "Take locks in one order everywhere, and hold none while calling into a collective.",
    ),
    next_steps=("py-spy dump --native --pid {pid}  # all threads of {who}",),
)
