"""How long the logs of a job have fallen silent between two lines while it worked.

A job that saves, evaluates or factorises every so often prints nothing meanwhile, and its ranks
stand as they do in a hang. A silence that is no longer than those before it proves nothing. Where
lines have no time, what they say something took counts.
"""

import re
from collections import defaultdict
from itertools import pairwise

from whyhang.analyzer.facts import LogTail, OwnLine, grouped
from whyhang.analyzer.job.records import Job

LEAST_LINES = 3
"""Lines of one statement with which a log counts what it does: before them, the job started."""

_TOOK = re.compile(r"(?<![\w.:-])(?P<seconds>\d{1,5}(?:\.\d+)?) ?(?:s|secs?|seconds)\b(?!/)")


def longest_pause(job: Job) -> float | None:
    """Return the longest silence between two lines in seconds, since the job has begun to count."""
    lines: dict[str, list[OwnLine]] = defaultdict(list)
    for tail in job.of(LogTail):
        lines[tail.source.file] += tail.lines
    return max(filter(None, map(_longest, lines.values())), default=None)


def _longest(lines: list[OwnLine]) -> float:
    ordered = sorted(lines, key=lambda line: line.number)
    statements = grouped(ordered, lambda line: line.template).values()
    counting = [those for those in statements if len(those) >= LEAST_LINES]
    first = min((those[0].number for those in counting), default=None)
    if first is None:
        return 0.0
    times = [line.time for line in ordered if line.time is not None and line.number >= first]
    pauses = [b - a for a, b in pairwise(times)]
    return max(pauses) if pauses else max(map(_took, counting))


def _took(lines: list[OwnLine]) -> float:
    """Return the longest time in seconds that lines of one statement tell; not one that adds up."""
    told = [[float(x["seconds"]) for x in _TOOK.finditer(line.text)] for line in lines]
    by_place = zip(*told, strict=True) if len({len(each) for each in told}) == 1 else ()
    apart = (v for v in by_place if list(v) not in (sorted(v), sorted(v, reverse=True)))
    return max((max(values) for values in apart), default=0.0)


def silence(job: Job) -> float | None:
    """Return for how many seconds no rank has written to its output, where that is known."""
    last = [member.last.silent_for for member in job.members if member.last is not None]
    known = [seconds for seconds in last if seconds is not None]
    return min(known, default=None)
