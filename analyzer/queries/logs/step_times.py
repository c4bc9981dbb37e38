"""Times that ranks print of the parts of their steps, where one part takes few ranks much longer.

Ranks that train together end each step together, so the step as a whole is as long on all of them.
Its parts tell who holds it up: the slow rank is long at its own work (data, forward), the others
at waiting for it. Parts that are waits are not compared, nor what one rank does for all.
"""

import contextlib
import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogTail, OwnLine, Record, Source
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import members_of
from whyhang.analyzer.queries.logs.stopped_at_work import stopped_at_work, told_to_stop
from whyhang.analyzer.rank_state.from_logs.gave_up import gave_up
from whyhang.analyzer.rank_state.from_logs.log_ends import tails_of_ranks
from whyhang.analyzer.report import cite

LEAST = 4  # steps of each rank that are compared
RANKS = 3  # of fewer nobody is the odd one
FEW = 4  # one rank in so many may be slow
SPOKEN = 0.75  # of the ranks print the line
FACTOR = 3.0  # times as long as on any other rank
NOTICED = 0.1  # seconds more
SHARE = 0.2  # of the longest time in the line: less holds nobody up
QUOTED = 3
LONGEST = 24  # characters before a value that say what it is

_NAME = re.compile(r"([A-Za-z][\w+./-]*(?: (?:time|took|wait|in))?)[ \"':=(\[]{0,4}$")
_LABEL = re.compile(r"^[A-Za-z][\w#.-]* (?i:rank)[ =]?#")
_UNIT = re.compile(r" ?(?P<scale>[mu]?)s(?:ec(?:ond)?s?)?(?![A-Za-z/])")
_IN_MS = re.compile(r"(?:_|\b)ms\b")
_SCALES = {"": 1.0, "m": 1e-3, "u": 1e-6}
_OF_TIME = re.compile(r"(?i)time|elapsed|latency|(?:\b|_)dt(?:\b|_)|took|(?:_|\b)(?:secs?|ms)\b")
_INPUT = re.compile(r"(?i)data|load|input|fetch|read|queue")
_WAITS = re.compile(
    r"(?i)sync|comm|wait|barrier|reduce|gather|nccl|idle|bubble|recv|send|broadcast|step|iter"
)
_OF_ONE = re.compile(r"(?i)sav(?:e|ing)|ckpt|checkpoint|log|eval|valid|eta\b|remain|since|uptime")


class _Part(Record):
    """A part of a step that few ranks need long for, by its name; times in seconds."""

    template: str
    name: str
    ranks: tuple[int, ...]
    lasts: float
    usual: float


def step_times_differ(case: Case) -> Iterator[Hit]:
    """Yield one hit for the few ranks on which a part of each step lasts much longer.

    Nothing where a rank gave up waiting, failed or ended, unless the job was stopped at work:
    there was more than a slow step.
    """
    job = case.job
    ended = any(row.exitcode or row.signal for row in job.exits) or told_to_stop(case) is not None
    ended = ended or any(line.raised is not None for line in job.lines)
    if gave_up(job) or (ended and stopped_at_work(case) is None):
        return
    tails = tails_of_ranks(job)
    part = max(_parts(tails), key=lambda part: part.lasts - part.usual, default=None)
    if part is None:
        return
    others = sorted(tails.keys() - set(part.ranks))
    quoted = {rank: _last(tails[rank], part) for rank in (*part.ranks[:QUOTED], others[0])}
    yield Hit(
        ranks=part.ranks,
        affected=members_of(case, others)[0],
        evidence=tuple(
            cite(Source(file=tails[rank].source.file, line=line.number), line.text, rank)
            for rank, line in quoted.items()
        ),
        fields={"part": part.name, "lasts": f"{part.lasts:.3g}", "usual": f"{part.usual:.2g}"},
    )


def _parts(tails: Mapping[int, LogTail]) -> Iterator[_Part]:
    printed: dict[str, dict[int, list[tuple[str, ...]]]] = defaultdict(lambda: defaultdict(list))
    for rank, tail in tails.items():
        for line in tail.lines:
            printed[_without_label(line.template)][rank].append(line.values)
    for template, by_rank in printed.items():
        steps = {rank: lines for rank, lines in by_rank.items() if len(lines) >= LEAST}
        if len(steps) < max(RANKS, SPOKEN * len(tails)):
            continue
        times = {
            (place, name): {rank: _times(lines, place, scale) for rank, lines in steps.items()}
            for place, name, scale in _places(template)
        }
        longest = max((max(own) for by in times.values() for own in by.values() if own), default=0)
        for (_, name), by in times.items():
            slow = _slow(by)
            if (
                not slow
                or _OF_ONE.search(name)
                or (_WAITS.search(name) and not _INPUT.search(name))
            ):
                continue
            lasts = min(statistics.median(by[rank]) for rank in slow)
            usual = max(statistics.median(own) for rank, own in by.items() if rank not in slow)
            if lasts - usual >= max(NOTICED, SHARE * longest):
                yield _Part(template=template, name=name, ranks=slow, lasts=lasts, usual=usual)


def _slow(times: Mapping[int, Sequence[float]]) -> tuple[int, ...]:
    """Return the few ranks whose times lie far above those of all others, step for step."""
    if any(len(own) < LEAST for own in times.values()):
        return ()
    usual = {rank: statistics.median(own) for rank, own in times.items()}
    order = sorted(usual, key=lambda rank: -usual[rank])
    for count in range(1, max(1, len(order) // FEW) + 1):
        slow, others = order[:count], order[count:]
        if usual[slow[-1]] < FACTOR * usual[others[0]]:
            continue
        lows = [statistics.quantiles(times[rank], n=4)[0] for rank in slow]
        highs = [statistics.quantiles(times[rank], n=4)[2] for rank in others]
        if min(lows) > max(highs):
            return tuple(sorted(slow))
    return ()


def _places(template: str) -> Iterator[tuple[int, str, float]]:
    """Yield which values of a line are times, with the name of each and its unit in seconds."""
    pieces = template.split("#")
    for place, (before, behind) in enumerate(itertools.pairwise(pieces)):
        name, unit = _NAME.search(before), _UNIT.match(behind)
        if name is None or (unit is None and not _OF_TIME.search(before[-LONGEST:])):
            continue
        in_ms = _IN_MS.search(before[-LONGEST:]) is not None
        yield place, name[1], _SCALES[unit["scale"] if unit else "m" * in_ms]


def _times(lines: Sequence[tuple[str, ...]], place: int, scale: float) -> list[float]:
    times = []
    for values in lines:
        with contextlib.suppress(ValueError, IndexError):  # a date, a hash
            times.append(float(values[place]) * scale)
    return times


def _last(tail: LogTail, part: _Part) -> OwnLine:
    return next(
        line for line in reversed(tail.lines) if _without_label(line.template) == part.template
    )


def _without_label(template: str) -> str:
    """Return a template without the host that stands before a rank."""
    return _LABEL.sub("#", template)
