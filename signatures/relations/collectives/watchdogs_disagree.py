"""The watchdogs of most ranks gave up in one operation, that of one rank in another.

Up to torch 2.0 they print no sequence number, so that the calls cannot be aligned; but ranks that
began to wait in the same moment, and not for the same, are in different calls. The rank that is
alone is where to look. Several groups at work at once look so as well, where they are not named.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import grouped, ranks_in_words
from whyhang.analyzer.queries import INCOMPLETE, Case, Hit, Signature, cite

LEAST = 3
"""Ranks that agree, at least: of fewer nobody is the odd one."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the rank that is alone, if all others whose watchdogs spoke agree."""
    tracks = [track for track in case.job.tracks if track.kind == "watchdog" and track.calls]
    calls = {track.who.rank: track.calls[0] for track in tracks}
    if None in calls or len({track.group for track in tracks}) > 1:
        return
    if any(call.seq is not None or call.p2p for call in calls.values()):
        return
    known = [rank for rank in calls if rank is not None]
    ranks_of = grouped(known, lambda rank: calls[rank].op)
    if len(ranks_of) != 2:
        return
    few, many = sorted(ranks_of.values(), key=len)
    if len(few) != 1 or len(many) < LEAST:
        return
    shown = {track.who.rank: track for track in tracks}
    yield Hit(
        ranks=tuple(few),
        affected=queries.members_of(case, many),
        strength=INCOMPLETE,
        evidence=tuple(
            cite(shown[rank].source, f"gave up in {calls[rank].op}", rank)
            for rank in (few[0], many[0])
        ),
        fields={
            "who": ranks_in_words(few),
            "call": calls[few[0]].op,
            "others": ranks_in_words(many),
            "other": calls[many[0]].op,
        },
    )


SIGNATURE = Signature(
    id="watchdogs-disagree",
    category="collective-mismatch",
    level="program",
    title="{who} waited in {call}, {others} in {other}",
    when=when,
    means=(
        "The watchdogs of {others} gave up in {other} and that of {who} in {call}, at the same "
        "time: it made another call than they did."
    ),
    confidence="likely",
    remedies=(
        "Look for what only {who} does: a branch on the rank, a save, an early end of its data.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run compares the calls of all ranks",),
)
