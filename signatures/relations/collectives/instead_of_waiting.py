"""Ranks wait in vain for a collective; others say what they did instead: long work, their end."""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogTail, OwnLine
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.queries.log import ORDERLY_END
from whyhang.analyzer.rank_state.gave_up import (
    few_beside,
    gave_up,
    is_cut_while_giving_up,
    lost_peer,
)
from whyhang.analyzer.rank_state.log_ends import tails_of_ranks
from whyhang.analyzer.wording.describe import duration

LONGEST = 80  # characters of a line in a title
LEAST = 10.0  # seconds of a limit
_SECONDS = re.compile(r"(?<![\w.:-])(?P<s>\d{2,7}(?:\.\d+)?) ?(?:s|secs?|seconds)\b(?!/)")
_BAR = re.compile(r"\[(?:(?P<h>\d+):)?(?P<m>\d\d):(?P<s>\d\d)<")
_LEAVES = re.compile(r"(?i)destroy(?:ing|_process_group|ed)|tear(?:ing)? ?down|shutting down")


def worked(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks whose work took longer than the limit of those who waited."""
    limits = [
        call.limit
        for track in case.job.tracks
        for call in track.calls
        if track.kind == "watchdog" and call.limit is not None
    ]
    waited = gave_up(case.job)
    if not waited or not limits or min(limits) < LEAST:
        return
    lines: dict[int, OwnLine] = {}
    longest = 0.0
    for tail in case.job.of(LogTail):
        for line in tail.lines if tail.who.rank not in waited else ():
            took = _took(line.text)
            if took > min(limits) and tail.who.rank is not None:
                lines.setdefault(tail.who.rank, line)
                longest = max(longest, took)
    if lines:
        yield _hit(case, lines, took=duration(longest), limit=duration(min(limits)))


def left(case: Case) -> Iterator[Hit]:
    """Yield one hit for the few ranks whose last words are of an end, while all others waited.

    What those print as well is no end of the work.
    """
    waited = gave_up(case.job)
    timed_out = any(track.kind == "watchdog" for track in case.job.tracks)
    tails = tails_of_ranks(case.job)
    others = sorted(tails.keys() - waited - lost_peer(case.job))
    everyone = len(waited) + len(others) >= (case.job.world_size or 0)
    if not timed_out or not everyone or not few_beside(others, waited):
        return
    last = {rank: tails[rank].lines[-1] for rank in others}
    usual = {line.template for rank in tails.keys() & waited for line in tails[rank].lines}
    if is_cut_while_giving_up(case.job) or usual & {line.template for line in last.values()}:
        return
    if all(_LEAVES.search(x.text) or ORDERLY_END.search(x.text) for x in last.values()):
        yield _hit(case, last)


def _took(text: str) -> float:
    """Return the longest time in seconds that a line tells, 0 where it tells none."""
    times = [float(match["s"]) for match in _SECONDS.finditer(text)]
    times += [
        3600 * int(bar["h"] or 0) + 60 * int(bar["m"]) + int(bar["s"])
        for bar in _BAR.finditer(text)
    ]
    return max(times, default=0.0)


def _hit(case: Case, lines: dict[int, OwnLine], **fields: str) -> Hit:
    tails = tails_of_ranks(case.job)
    members, unseen = queries.members_of(case, sorted(lines))
    waiters, _ = queries.members_of(case, sorted(gave_up(case.job)))
    first = min(lines)
    return Hit(
        members=members,
        ranks=unseen,
        affected=waiters,
        evidence=tuple(
            queries.cite(tails[rank].source, line.text, rank)
            for rank, line in sorted(lines.items())[:4]
            if rank in tails
        ),
        fields={
            "who": queries.ranks_in_words(lines),
            "line": lines[first].text[:LONGEST],
            **fields,
        },
    )


WORKED = Signature(
    id="work-outlasts-limit",
    story="""\
A rank worked for longer than the others' limit, and says how long.

Moving a model to the host, saving, evaluating, compiling: what one rank does alone while the others
stand in the next collective must be shorter than their limit. The time that it prints tells.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} worked for {took}, the others wait {limit} at most: '{line}'",
    when=worked,
    means="The others came to the next collective meanwhile and gave it up. Nothing else is wrong.",
    confidence="likely",
    remedies=(
        "Give the group a longer timeout, or let all ranks wait on the CPU while {who} works.",
        "Find out why it takes so long: storage, memory that swaps, a copy over a slow path.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, while it works",),
)

LEFT = Signature(
    id="rank-left-others-wait",
    story="""\
The last words of a rank are of its end, while all others wait in a collective.

It came to the end of its program, or destroys its process groups after an error, and makes no more
calls. The others have one more to make: their loops are longer, or it skipped some.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} was at its end where the others waited: '{line}'",
    when=left,
    means="{who} makes no more calls, so the others wait in vain until their limit.",
    confidence="possible",
    remedies=("Find out why {who} ended first: an error before, fewer batches, an early return.",),
    next_steps=("Read the log of {who} from that line upwards.",),
)

SIGNATURES = (WORKED, LEFT)
