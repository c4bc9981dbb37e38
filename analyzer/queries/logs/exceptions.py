"""Exceptions that ended a rank, the program or a thread: whose was the first."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import NOBODY, Frame, LogLine, LogTail, Source, Speaker, replace
from whyhang.analyzer.facts.exceptions import CUT_OFF, Raised
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, Hit
from whyhang.analyzer.job.records import GROUP_RANK, unnumbered
from whyhang.analyzer.queries.hits import cite_lines
from whyhang.analyzer.queries.logs.failures import (
    are_most,
    children_of,
    has_no_ranks_to_blame,
    has_ranks,
    raised_by,
)
from whyhang.analyzer.queries.logs.what_failed import NAMES, failed_lines
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.from_logs.ends import is_of_wait
from whyhang.analyzer.wording.describe import site_location

_WORKER = re.compile(rf"{GROUP_RANK.pattern}|[\w-]*[Ww]orker")
_OF_SOURCE = frozenset({"SyntaxError", "IndentationError", "TabError"})
"""Errors in the source, which all ranks read."""
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+")
_WORDS_THAT_VARY = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[\d./_]\S*")


@query
def raised(
    case: Case, ends: Literal["rank", "program", "thread"], *, cut_off: bool = False
) -> Iterator[Hit]:
    """Yield one hit for the exception raised first, if it ended a rank, the program or a thread.

    It ended the program where every rank raised it or there is only one process. Without a thread
    that it ended the program goes on. ``cut_off``: of those whose words are lost.
    """
    lines = _first_raised(case, in_thread=ends == "thread", cut_off=cut_off)
    if not lines:
        return
    if ends == "thread":
        yield replace(_raised_hit(case, lines, _ranks_of(lines)), names_culprit=False)
        return
    ranks = raised_by(case, lines)
    of_source = all(line.raised is not None and line.raised.kind in _OF_SOURCE for line in lines)
    of_program = (
        of_source or has_no_ranks_to_blame(case, ranks) or (not ranks and _all_raised(case, lines))
    )
    if of_program is (ends == "program"):
        only_one = ranks == (0,) and not has_ranks(case)  # of its one process a launcher speaks
        yield _raised_hit(case, lines, ranks if ends == "rank" or only_one else ())


def _first_raised(case: Case, *, in_thread: bool, cut_off: bool) -> list[LogLine]:
    """Return the lines of the exception raised first, on the fewest ranks.

    Not one that a collective raised because of another rank, nor one of whose lines a signature of
    its own says more. Exceptions that say the same but for numbers are one, and at one place of
    the user's code those that say the same but for names.
    """
    known = (line for line in case.job.lines if not {*NAMES}.issuperset(line.matched))
    explained = {
        (line.source.file, line.source.line or 0) for line in (*known, *failed_lines(case, *NAMES))
    }
    groups: dict[tuple[str, str], list[LogLine]] = defaultdict(list)
    at_place: dict[tuple[str, Frame, str], tuple[str, str]] = {}
    for line in case.job.lines:
        raised = line.raised
        if (
            raised is not None
            and (raised.thread is not None) is in_thread
            and raised.is_own
            and (raised.type == CUT_OFF) is cut_off
            and not is_of_wait(line, case.job.lines)
            and explained.isdisjoint(_lines_of(line.source, raised))
        ):
            key = raised.type, _NUMBERS.sub("N", raised.message)
            if raised.frame is not None:
                message = _WORDS_THAT_VARY.sub("N", raised.message)
                key = at_place.setdefault((raised.type, raised.frame, message), key)
            groups[key].append(line)
    return min(groups.values(), key=lambda lines: (_when(lines), len(_ranks_of(lines))), default=[])


def _lines_of(source: Source, raised: Raised) -> Iterator[tuple[str, int]]:
    """Yield where the lines of an exception's message stand, up to a traceback in it."""
    first = source.line or 0
    message, within, _ = raised.message.partition("Traceback (most recent call last)")
    for number in range(first, first + message.count("\n") + (0 if within else 1)):
        yield source.file, number


def _ranks_of(lines: list[LogLine]) -> tuple[int, ...]:
    return tuple(sorted({line.who.rank for line in lines if line.who.rank is not None}))


def _when(lines: list[LogLine]) -> float:
    return min((line.time for line in lines if line.time is not None), default=float("inf"))


def _all_raised(case: Case, lines: list[LogLine]) -> bool:
    """Return whether several processes raised, and they are all.

    As many as the job has ranks or a launcher has children, or all of those that a place in a
    group names.
    """
    if 1 < (case.job.world_size or len(children_of(case))) <= sum(line.count for line in lines):
        return True
    speak = [fact.who for fact in case.job.of(Speaker)] + [line.who for line in case.job.lines]
    places = {who.label for who in speak if GROUP_RANK.match(who.label or "")}
    return len(places) > 1 and places == {line.who.label for line in lines}


def _worker(lines: list[LogLine]) -> str | None:
    """Name the one worker that raised, where its rank is not known."""
    raised = {line.who for line in lines}
    who = next(iter(raised))
    return unnumbered(who) if len(raised) == 1 and _WORKER.match(who.label or "") else None


def _may_be_a_child(case: Case, lines: list[LogLine]) -> bool:
    """Return whether a process of multiprocessing raised without a label, where ranks have one."""
    of_process = all(x.raised is not None and x.raised.process and x.who == NOBODY for x in lines)
    return of_process and any(tail.who.rank is not None for tail in case.job.of(LogTail))


def _raised_hit(case: Case, lines: list[LogLine], ranks: tuple[int, ...]) -> Hit:
    first = lines[0].raised
    place = site_location(first.frame) if first is not None else None
    return Hit(
        ranks=ranks,
        evidence=cite_lines(lines),
        strength=GUESSED if _may_be_a_child(case, lines) else CLEAR,
        names_culprit=bool(ranks) and not are_most(case, ranks),
        location=place,
        fields={
            "what": str(first),
            "at": f" at {place}" if place is not None else "",
            **({"who": who} if not ranks and (who := _worker(lines)) else {}),
        },
        at=_when(lines) if _when(lines) != float("inf") else None,
    )
