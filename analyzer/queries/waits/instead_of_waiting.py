"""Ranks wait in vain for a collective; others say what they did instead: long work, their end."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import LogLine, LogTail, OwnLine, ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import cite_line, members_of, merged
from whyhang.analyzer.queries.logs.log import ORDERLY_END
from whyhang.analyzer.queries.logs.what_failed import failed_lines
from whyhang.analyzer.rank_state.from_logs.ends import IN_VAIN
from whyhang.analyzer.rank_state.from_logs.gave_up import (
    few_beside,
    gave_up,
    is_cut_while_giving_up,
    lost_peer,
    silent_beside,
)
from whyhang.analyzer.rank_state.from_logs.log_ends import own_line, tails_of_ranks
from whyhang.analyzer.report import cite
from whyhang.analyzer.wording.describe import duration

LONGEST = 80  # characters of a line in a title
LEAST = 10.0  # seconds of a limit
_SECONDS = re.compile(r"(?<![\w.:-])(?P<s>\d{2,7}(?:\.\d+)?) ?(?:s|secs?|seconds)\b(?!/)")
_BAR = re.compile(r"\[(?:(?P<h>\d+):)?(?P<m>\d\d):(?P<s>\d\d)<")
_LEAVES = re.compile(r"(?i)destroy(?:ing|_process_group|ed)|tear(?:ing)? ?down|shutting down")


def _worked(case: Case) -> Iterator[Hit]:
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


def _left(case: Case) -> Iterator[Hit]:
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
    waiters, _ = members_of(case, sorted(gave_up(case.job)))
    first = min(lines)
    return Hit(
        ranks=tuple(sorted(lines)),
        affected=waiters,
        evidence=tuple(
            cite(tails[rank].source, line.text, rank)
            for rank, line in sorted(lines.items())[:4]
            if rank in tails
        ),
        fields={"line": lines[first].text[:LONGEST], **fields},
    )


def instead_of_waiting(case: Case, ranks: Literal["worked", "left"]) -> Iterable[Hit]:
    """Yield one hit for ranks that worked for longer than others waited, or had left them."""
    return _worked(case) if ranks == "worked" else _left(case)


MAX_QUOTES = 6
_NOTIFY = ("The wait execution of the Notify register times out",)  # of hccl-notify-timeout


def ranks_not_waiting(
    case: Case, lines: Sequence[LogLine], *, own_logs: bool = False
) -> Iterable[Hit]:
    """Return one hit for ranks that speak in the logs and not of waiting, as these lines do.

    What programs say in words of their own counts as these lines do. ``own_logs``: only ranks with
    a log of their own count, whose silence is no cut in an excerpt; and what watchdogs and NPUs say
    of waiting counts, too.
    """
    if not own_logs:
        return _not_among(case, [*lines, *failed_lines(case, IN_VAIN)], own_logs=False)
    kinds = (_timed_out(case), lines, case.job.lines_with(_NOTIFY))
    return merged(*(_not_among(case, each, own_logs=True) for each in kinds))


def _not_among(case: Case, lines: Sequence[LogLine], *, own_logs: bool) -> Iterator[Hit]:
    """Yield one hit for ranks that speak in the logs and not of waiting, as ``lines`` do.

    Only few may be missing among those who waited: the only other rank of two, or half as many.
    """
    last = silent_beside(case.job, own_logs=own_logs)
    if not lines or not last:
        return
    waited, others = gave_up(case.job), sorted(last)
    calls = {str(each.call) for each in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT) if each.call}
    line = own_line(case.job, last[others[0]])[:LONGEST]
    place = f"{last[others[0]].source.file}:{last[others[0]].source.line}"
    last_words = [cite(last[rank].source, last[rank].text, rank) for rank in others[:MAX_QUOTES]]
    yield Hit(
        ranks=tuple(others),
        affected=tuple(sorted({m.id for line in lines if (m := case.job.member_of(line.who))})),
        evidence=(*(cite_line(line) for line in lines[:2]), *last_words),
        fields={
            "others": ranks_in_words(waited),
            "call": calls.pop() if len(calls) == 1 else "the call",
            "line": f"'{line}' ({place})",
            "watchdogs": "NPUs" if "Notify register" in lines[0].text else "NCCL watchdogs",
            "its": "its" if len(others) == 1 else f"of rank {others[0]} the",
        },
        at=min((line.time for line in lines if line.time is not None), default=None),
    )


def _timed_out(case: Case) -> list[LogLine]:
    """Return the lines in which a watchdog names the call it gave up."""
    places = {
        (track.source.file, track.source.line)
        for track in case.job.tracks
        if track.kind == "watchdog" and track.calls
    }
    return [line for line in case.job.lines if (line.source.file, line.source.line) in places]
