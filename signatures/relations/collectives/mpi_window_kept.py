"""Ranks wait for the lock of a window of MPI, and others have gone on past it.

Who waits in ``Win.Lock`` waits for the one rank that holds the lock, not for all. That one came
past ``Lock`` and not through ``Unlock``: an early return or an exception between the two, or a call
in between that itself waits. It may be the rank that stands elsewhere now, or one that wants the
lock again; the lines that leave the function between the two show where it was kept.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind, call_of, quoted
from whyhang.analyzer.queries.waits.left_loops import went_on
from whyhang.analyzer.queries.waits.states import OF_A_HOLDER
from whyhang.analyzer.stacks.usercode import in_words, line_of
from whyhang.analyzer.stacks.ways_out import exits_before
from whyhang.analyzer.wait_graph import PendingOperation

MOST_SHOWN = 3
"""Ways out of the function that are named."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit; the one rank that has left the loop of all that wait is to blame."""
    graph = case.graph
    if graph.progress or graph.lagging or not queries.all_seen(case):
        return
    locks = [m for m in graph.operations if m.kind is WaitKind.MPI and m.op in OF_A_HOLDER]
    others = [m for m in graph.operations if m not in locks]
    if not locks or not others or any(m.op.startswith("win_") for m in others):
        return
    waiting = [n for meeting in locks for n in meeting.members]
    gone = [n for meeting in others for n in meeting.members]
    user = case.states[waiting[0]].user
    left = all(went_on(case, case.states[n], case.states[m]) for n in gone for m in waiting)
    named = gone if left and len(gone) == 1 else []

    text = case.text
    ways = list(exits_before(user, "Unlock", text))[:MOST_SHOWN] if user is not None else []
    lines = " and ".join(quoted(way, text) for way in ways)
    kept = f"; between Lock and Unlock stands {lines}" if ways else ""
    yield queries.hit_about(
        case,
        named,
        [n for n in sorted((*waiting, *gone)) if n not in named],
        shown=named or waiting[:1],
        evidence=queries.places_of(case, *(m.members[0] for m in (*others, *locks))),
        fields={
            "waiters": case.names(waiting),
            "wait": "wait" if len(waiting) > 1 else "waits",
            "lock": f" at {in_words(user)}" if user is not None else "",
            "gone": "; ".join(f"{case.names(m.members)} {_waits(m)}" for m in others),
            "kept": kept,
            "leave": f"`{(text(ways[0]) or '').strip()}` ({line_of(ways[0])})" if ways else "it",
        },
        collective=call_of(case, waiting),
    )


def _waits(operation: PendingOperation) -> str:
    verb = "wait" if len(operation.members) > 1 else "waits"
    return f"{verb} {operation.says.wait}{operation.at}"


SIGNATURE = Signature(
    id="mpi-window-kept",
    category="mpi-mismatch",
    level="program",
    title=(
        "The lock of an MPI window was not given back: {waiters} {wait} for it{lock}; {gone}{kept}"
    ),
    when=when,
    means=(
        "Who waits in Lock waits for the rank that holds the lock. That one came past Lock and not "
        "through Unlock, and stands elsewhere now or wants the lock again{kept}."
    ),
    confidence="likely",
    remedies=(
        "Unlock before each way out of the function, or in a finally clause: see {leave} first.",
        "Let no rank wait for others (a barrier, a receive) between Lock and Unlock.",
    ),
    next_steps=("Print the rank at each Lock and Unlock: which rank is one Unlock short?",),
)
