"""The sentences of findings about recorded calls."""

from collections.abc import Collection, Sequence

from whyhang.analyzer.collectives.call_finding import Verdict
from whyhang.analyzer.collectives.divergence import Divergence
from whyhang.analyzer.collectives.p2p import PendingP2P
from whyhang.analyzer.collectives.pending import IssuedCall, Position
from whyhang.analyzer.collectives.shift import Shift
from whyhang.analyzer.collectives.waits import CallRef, Link
from whyhang.analyzer.facts import Frame, ranks_in_words
from whyhang.analyzer.stacks.usercode import short

MAX_DIVERGENCES = 2
"""Ranks that diverged of which a sentence says how."""


def at(site: Frame | None) -> str:
    """Write " at train.py:40 (step)", or nothing."""
    if site is None:
        return ""
    line = f":{site.line}" if site.line is not None else ""
    return f" at {short(site.file)}{line} ({site.function})"


def never_joined(
    culprits: Sequence[int], call: CallRef, waiting: Sequence[int], position: Position | None
) -> str:
    """Say who has not come, who waits, and what the first of those missing did last."""
    wait = f", where {_wait(waiting)}" if waiting else ""
    return f"{_start(culprits)} {_has(culprits)} not joined {call}{wait}{_last(culprits, position)}"


def never_answered(
    culprits: Sequence[int], call: CallRef, waiting: Sequence[int], position: Position | None
) -> str:
    """Say who has not posted the other half of a send or receive."""
    return (
        f"{_start(culprits)} {_has(culprits)} not answered the {call} in which {_wait(waiting)}"
        f"{_last(culprits, position)}"
    )


def came_late(culprits: Sequence[int], call: CallRef, waiting: Sequence[int], by: float) -> str:
    """Say who came to a call after the others had given it up."""
    return (
        f"{_start(culprits)} came to {call} {by:,.0f} s later than {ranks_in_words(waiting)}, "
        "by when these had given up"
    )


def stalled(culprits: Sequence[int], call: CallRef, done: Sequence[int]) -> str:
    """Say who joined a call and has not finished it though others have."""
    return (
        f"{_start(culprits)} joined {call} and {_has(culprits)} not finished it, though "
        f"{ranks_in_words(done)} {_has(done)}: "
        "its device or its process stopped in the middle"
    )


def partly_completed(ranks: Sequence[int], call: CallRef, done: Sequence[int]) -> str:
    """Say who is in a call that others completed, which blames nobody."""
    return (
        f"{_start(ranks)} {'is' if len(ranks) == 1 else 'are'} still in {call}, which "
        f"{ranks_in_words(done)} {_has(done)} finished"
    )


def late_or_unrecorded(late: str, ranks: Sequence[int]) -> str:
    """Add that late ranks may wait for each other where no record tells of it."""
    return (
        f"{late}. This job also makes calls that its recorders leave out (over gloo: sends and "
        f"receives), so which of {ranks_in_words(ranks)} waits for another is not known"
    )


def all_arrived(ranks: Sequence[int], call: CallRef) -> str:
    """Say that everyone came and nobody got through."""
    if call.p2p:
        stand = "stands" if len(ranks) == 1 else "stand"
        return f"{_start(ranks)} {stand} in {call}, the peer answers, and nothing comes of it"
    return f"{_start(ranks)} have all joined {call} and none comes back"


def waits_for_absent(
    ranks: Sequence[int], call: CallRef, absent: Sequence[int], older: Collection[int] = ()
) -> str:
    """Say whom the known members wait for, without blame; ``older`` have an old record only."""
    none, old = [r for r in absent if r not in older], [r for r in absent if r in older]
    lacks = [f"{ranks_in_words(none)} left no record"] if none else []
    lacks += [f"{ranks_in_words(old)} left only an older one"] if old else []
    whom = (
        f"group members among the absent: {', '.join(lacks)}"
        if lacks
        else "members of its group that are not known"
    )
    return f"{_start(ranks)} {'waits' if len(ranks) == 1 else 'wait'} in {call} for {whom}"


def shifted(culprits: Sequence[int], shift: Shift, missed: CallRef, site: Frame | None) -> str:
    """Say which call was left out, was one too many, or came in another order."""
    what = {
        Verdict.SKIPPED: "skipped",
        Verdict.EXTRA: "made one call too many:",
        Verdict.REORDERED: "made its calls in another order, beginning at",
    }[shift.verdict]
    more = f" and {shift.calls - 1} more" if shift.calls > 1 else ""
    return f"{_start(culprits)} {what} {missed}{at(site)}{more}"


AGREE = "the calls after it agree if shifted"


def unpaired(calls: Sequence[PendingP2P]) -> str:
    """Say which sends and receives have no counterpart, with their tags where any has one."""
    tagged = any(each.call.tag for each in calls)
    listed = "; ".join(
        f"rank {p.rank} is in {p.ref}{f' with tag {p.call.tag}' if tagged else ''}{at(p.site)}"
        for p in calls[:4]
    )
    return f"Sends and receives do not pair: {listed}"


def unclosed(call: IssuedCall) -> str:
    """Say that a coalesced block was opened and not closed."""
    opened = f"Rank {call.rank} opened a coalesced block with {call.ref}{at(call.site)}"
    return f"{opened} and never closed it"


def deadlock(links: Sequence[Link]) -> str:
    """Follow a cycle of waits around."""
    steps = "; ".join(
        f"rank {link.wait.waiter} waits in {link.wait.call}{at(link.wait.site)} "
        f"for rank {link.next}"
        for link in links
    )
    return f"The ranks wait for each other in a circle: {steps}"


def with_divergences(says: str, divergences: Sequence[Divergence]) -> str:
    """Put before a sentence what ranks did where they diverged from ranks of the same role."""
    return ". ".join((*(_diverged(each) for each in divergences[:MAX_DIVERGENCES]), says))


def _diverged(divergence: Divergence) -> str:
    own, usual = divergence.own, divergence.usual
    return (
        f"Rank {divergence.rank} went on to {own.ref}{at(own.site)} "
        f"where ranks of its role call {usual.ref}{at(usual.site)}, as it did before"
    )


def in_motion(ranks: Collection[int]) -> str:
    """Say that the dumps are of a job that ran."""
    return (
        f"The dumps of {ranks_in_words(ranks)} were written while the ranks still went on: "
        "the newest call of each is no older than the pauses it makes anyway"
    )


def all_completed(ranks: Sequence[int]) -> str:
    """Say that no call is open."""
    return f"Every recorded call of {ranks_in_words(ranks)} is completed"


def several(sentences: Sequence[str]) -> str:
    """Join what ranks did in several calls."""
    shown = ". ".join(sentences[:4])
    return shown if len(sentences) <= 4 else f"{shown}. And {len(sentences) - 4} more like these"


def _start(ranks: Sequence[int]) -> str:
    return ranks_in_words(ranks).capitalize()


def _has(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _wait(ranks: Sequence[int]) -> str:
    return f"{ranks_in_words(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"


def _last(culprits: Sequence[int], position: Position | None) -> str:
    if position is None:
        return ""
    whose = "its" if len(culprits) == 1 else f"rank {culprits[0]}'s"
    if position.inside:
        return f"; {whose} oldest open call is {position.call}{at(position.site)}"
    return f"; {whose} last call was {position.call}{at(position.site)}"
