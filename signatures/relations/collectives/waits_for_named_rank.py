"""Ranks wait in a call whose arguments name a rank, and that rank did not come to it.

Receivers of a broadcast or a scatter wait for its root, who sends to a gather waits for the rank
that gathers, a send and a receive wait for each other; and at the head of a block that the main
process runs first (main_process_first) the others wait for it in a barrier. The number stands in
the line of source of a traceback or among the arguments in a dump; of two ranks it is the other.
Nothing is seen of that rank itself.
"""

from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallState, RootArgument, Source
from whyhang.analyzer.queries import CLEAR, GUESSED, INCOMPLETE, Case, Hit, Signature, Status, cite

MAX_QUOTES = 6
OF_WAITS = frozenset({"stack", "watchdog"})
"""Tracks that show a rank in its call: a watchdog's names no peer, but of two there is but one."""
ROOTED = frozenset({"broadcast", "scatter", "gather", "reduce", "barrier"})

_Wait = tuple[int, str, Source]  # who waits, in which call, as told where


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for each rank of which nothing is seen and that the calls of others name.

    Who waits for a rank itself, or stands in the same call, is not the one; of ranks that are seen
    elsewhere other signatures know more.
    """
    waits: dict[int, list[_Wait]] = defaultdict(list)
    for root in case.job.of(RootArgument):
        if root.who.rank is not None:
            waits[root.root].append((root.who.rank, root.op, root.source))
    for track in case.job.tracks:
        for call in track.calls if track.kind in OF_WAITS and track.who.rank is not None else ():
            if call.p2p and call.peer is not None and call.state is not CallState.COMPLETED:
                waits[call.peer].append((track.who.rank or 0, call.op, track.source))
    waiting = {rank for own in waits.values() for rank, _, _ in own}
    states = {case.member(state.member).rank: state for state in case.states}
    for named, own in waits.items():
        seen = named in states and states[named].status is not Status.UNSEEN
        if named in waiting or seen or any(rank == named for rank, _, _ in own):
            continue
        yield _hit(case, named, own)


def _hit(case: Case, named: int, own: list[_Wait]) -> Hit:
    waiters = {rank for rank, _, _ in own}
    ops = sorted({op for _, op, _ in own})
    unseen = {s.member for s in case.states if s.status is Status.UNSEEN}
    others = unseen.difference(queries.members_of(case, (named,)))
    is_rooted = any(op in ROOTED for op in ops)
    of_watchdogs = {track.source for track in case.job.tracks if track.kind == "watchdog"}
    # A watchdog says that nothing came, and not that nothing was sent.
    seen = INCOMPLETE if all(source in of_watchdogs for _, _, source in own) else CLEAR
    return Hit(
        # Where others of the group are not seen either, it may be they that hold it up.
        strength=GUESSED if is_rooted and (others or {*case.job.absent} - {named}) else seen,
        ranks=(named,),
        affected=queries.members_of(case, waiters),
        evidence=tuple(
            cite(source, f"{op} with rank {named}", rank) for rank, op, source in own[:MAX_QUOTES]
        ),
        fields={
            "who": queries.ranks_in_words((named,)),
            "others": queries.ranks_in_words(waiters),
            "call": " and ".join(ops),
        },
    )


SIGNATURE = Signature(
    id="waits-for-named-rank",
    category="missing-rank-in-collective",
    level="wait",
    title="{others} waits in {call} for {who}, which did not come to it",
    when=when,
    means="The call of {others} names {who}: it comes to its end only if that rank makes it, too.",
    confidence="likely",
    remedies=("Look at {who} first: its stack if it lives, the end of its log if not.",),
    next_steps=("whyhang PID  # on the host of {who}",),
)
