"""The sentences of findings about recorded calls."""

from collections.abc import Collection, Sequence

from whyhang.analyzer.collectives.call_finding import Verdict
from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.collectives.routine import Departure
from whyhang.analyzer.collectives.shift import Shift
from whyhang.analyzer.collectives.waits import CallRef
from whyhang.analyzer.facts import Frame, ranks_in_words
from whyhang.analyzer.stacks.usercode import line_of
from whyhang.analyzer.wording.fill_texts import fill, sentence

MAX_DIVERGENCES = 2
"""Ranks that diverged of which a sentence says how."""

AGREE = "the calls after it agree if shifted"


def says(
    text: str, who: Collection[int], call: CallRef | None = None, others: Collection[int] = ()
) -> str:
    """Fill a sentence about ranks, whose verbs agree with them, and with ``others``."""
    words = {"who": ranks_in_words(who), "call": str(call), "others": ranks_in_words(others)}
    return sentence(fill(text, words))


def at(site: Frame | None) -> str:
    """Write " at train.py:40 (step)", or nothing."""
    return f" at {line_of(site)} ({site.function})" if site is not None else ""


def late(
    culprits: Sequence[int], call: CallRef, waiting: Sequence[int], last: IssuedCall | None
) -> str:
    """Say who has not come, who waits, and what the first of those missing did last."""
    if call.p2p:
        text = "{who} has not answered the {call} in which {others} waits"
    else:
        text = "{who} has not joined {call}" + (", where {others} waits" if waiting else "")
    whose = "its" if len(culprits) == 1 else f"rank {culprits[0]}'s"
    if last is not None:
        which = "oldest open call is" if last.inside else "last call was"
        text += f"; {whose} {which} {last.ref}{at(last.site)}"
    return says(text, culprits, call, waiting)


def waits_for_absent(
    ranks: Sequence[int], call: CallRef, absent: Sequence[int], older: Collection[int]
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
    return says(f"{{who}} waits in {{call}} for {whom}", ranks, call)


def shifted(culprits: Sequence[int], shift: Shift, missed: IssuedCall) -> str:
    """Say which call was left out, was one too many, or came in another order."""
    what = {
        Verdict.SKIPPED: "skipped",
        Verdict.EXTRA: "made one call too many:",
        Verdict.REORDERED: "made its calls in another order, beginning at",
    }[shift.verdict]
    more = f" and {shift.calls - 1} more" if shift.calls > 1 else ""
    return says(f"{{who}} {what} {{call}}", culprits, missed.ref) + at(missed.site) + more


def with_divergences(sentence: str, divergences: Sequence[Departure]) -> str:
    """Put before a sentence what ranks did where they diverged from ranks of the same role."""
    before = (
        f"Rank {each.rank} went on to {each.own.ref}{at(each.own.site)} "
        f"where ranks of its role call {each.usual.ref}{at(each.usual.site)}, as it did before"
        for each in divergences[:MAX_DIVERGENCES]
    )
    return ". ".join((*before, sentence))
