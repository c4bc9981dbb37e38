"""How long the steps take that logs count, and whether they take much longer than before.

Two things tell it: the times of lines that count, and what such a line itself says of a step, as a
duration ("iter 230 time 60.0 s") or as a rate ("12.1 samples/s"). A pause for a checkpoint or an
evaluation is over with the next line; a job that has become slow has several slow ones at its end.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from whyhang.analyzer.facts import LogTail, OwnLine, Record, Source, grouped

EARLIER = 4  # paces from which the usual one is known
LAST = 3  # that must all be slow
SLOWER = 4.0  # times the usual pace
NOTICED = 1.0  # seconds between two lines: shorter ones are jitter

_DURATION = re.compile(
    r"(?i)(?<![a-z])(?!(?:total|eta|remaining|left|since)[ _])"
    r"(?:(?:step|iter(?:ation)?|batch|data|fwd|bwd|forward|backward|train|s|sec\w*)[ _]?)?"
    r"(?:time(?: per \w+)?|took|duration|s/it)(?:[ _](?:s|sec|ms|in seconds))?\W{1,4}$"
)
_PER_STEP = re.compile(r"(?i) ?(?:s|sec|ms) ?/ ?(?:it|step|iter|batch)")
_RATE = re.compile(
    r"(?i)(?:(?:images?|imgs?|samples?|tok(?:en)?s?|its?|steps?|examples?|seqs?|batches)"
    r"(?:/s(?:ec)?|_per_sec(?:ond)?|/s/gpu)|throughput|\bTGS|\bspeed)\W{1,4}$"
)
_PER_SECOND = re.compile(
    r"(?i) ?(?:images?|imgs?|samples?|tok(?:en)?s?|its?|steps?|examples?|seqs?|batch(?:es)?)"
    r" ?/ ?s(?:ec)?\b"
)


class Slowed(Record):
    """Steps that take so many ``times`` as long as before.

    ``line`` is the last that shows it, ``before`` the last of the usual ones.
    """

    times: float
    line: OwnLine
    before: OwnLine
    source: Source


def slowed(tails: Iterable[LogTail]) -> Slowed | None:
    """Return where steps take longer up to the end of a log; the worst case of several."""
    found = [each for tail in tails for each in _of_tail(tail)]
    return max(found, key=lambda each: each.times, default=None)


def _of_tail(tail: LogTail) -> Iterator[Slowed]:
    counting = (line for line in tail.lines if line.values)
    statements = grouped(counting, lambda line: line.template)
    for template, lines in statements.items():
        if len(lines) <= EARLIER + LAST:
            continue
        for paces, noticed in (_by_clock(lines), *_by_words(template, lines)):
            if len(paces) < EARLIER + LAST:
                continue
            usual, now = median(paces[:-LAST]), min(paces[-LAST:])
            if noticed and 0 < SLOWER * usual <= now:
                at = next(n for n in range(len(paces), 0, -1) if paces[n - 1] < SLOWER * usual)
                before = lines[len(lines) - len(paces) + at - 1]
                yield Slowed(
                    times=median(paces[at:]) / usual,
                    line=lines[-1],
                    before=before,
                    source=tail.source,
                )


def _by_clock(lines: Sequence[OwnLine]) -> tuple[list[float], bool]:
    """Return the seconds for each count between lines, and whether they can be noticed."""
    at = _counter(lines)
    times = [line.time for line in lines]
    if at is None or None in times:
        return [], False
    counts = [int(line.values[at]) for line in lines]
    spans = [b - a for a, b in itertools.pairwise(time for time in times if time is not None)]
    paces = [span / (b - a) for span, (a, b) in zip(spans, itertools.pairwise(counts), strict=True)]
    return paces, min(spans[-LAST:]) >= NOTICED and min(spans) >= 0


def _counter(lines: Sequence[OwnLine]) -> int | None:
    """Return the first value that counts up in all lines."""
    width = min(len(line.values) for line in lines)
    for at in range(width):
        column = [line.values[at] for line in lines]
        if all(value.isdecimal() and len(value) < 12 for value in column):
            counts = [int(value) for value in column]
            if all(a < b for a, b in itertools.pairwise(counts)):
                return at
    return None


def _by_words(template: str, lines: Sequence[OwnLine]) -> Iterator[tuple[list[float], bool]]:
    """Yield what lines say of their steps, by the words around a number."""
    pieces = template.split("#")
    if any(len(line.values) != len(pieces) - 1 for line in lines) or _counter(lines) is None:
        return
    for at in range(len(pieces) - 1):
        is_rate = _PER_SECOND.match(pieces[at + 1]) or _RATE.search(pieces[at])
        is_time = _PER_STEP.match(pieces[at + 1]) or _DURATION.search(pieces[at])
        if not is_rate and not is_time:
            continue
        numbers = [_number(line.values[at]) for line in lines]
        known = [number for number in numbers if number is not None and number > 0]
        rising = all(a < b for a, b in itertools.pairwise(known))  # since the start, rather
        if len(known) == len(lines) and not (rising and not is_rate):
            yield ([1 / number for number in known] if is_rate else known), True


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
