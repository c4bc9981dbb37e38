"""Steps that a job writes to its logs while it is looked at: it goes on, whatever its stacks show.

A script without functions has no variables that could be compared, and one that sleeps, reads or
computes between two short collectives is hardly ever caught in these.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

from whyhang.analyzer.facts import Record, Source, StepsWritten
from whyhang.analyzer.redact import redact
from whyhang.collectors import tables
from whyhang.collectors.live.probes.logs import MAX_FILES, candidates
from whyhang.collectors.live.probes.probe import Site

MOST = 64 << 10
"""Bytes of what a log has grown by."""

BEFORE = 4 << 10
"""Bytes before that, in which the last steps stand."""

LONGEST = 200
"""Characters of a line that are kept."""


class _Counts(Record):
    step: re.Pattern[bytes]
    no_step: re.Pattern[bytes]


_COUNTS = tables.patterns(__package__, "log_growth.toml", _Counts)


def sizes(site: Site) -> dict[str, int]:
    """Return how long the logs of a job are, by the path that each is read through."""
    paths = (path for path, _, _ in itertools.islice(candidates(site), MAX_FILES))
    contents = {path: site.host.files.read(path, most=0) for path in paths}
    return {path: each.length for path, each in contents.items() if each.is_file and each.length}


def steps_written(site: Site, before: Mapping[str, int]) -> Iterator[StepsWritten]:
    """Yield a step that each log counts, and had not ``before``, when it was so many bytes long."""
    for path, shown, who in itertools.islice(candidates(site), MAX_FILES):
        length = before.get(path)
        if length is None:
            continue
        start = max(0, length - BEFORE)
        data = site.host.files.read(path, most=MOST + BEFORE, start=start).data
        step = further_step(data[: length - start], data[length - start :])
        if step is not None:
            text = redact(step)[:LONGEST]
            yield StepsWritten(text=text, who=who, source=Source(file=redact(shown)))


def further_step(written: bytes, new: bytes) -> str | None:
    """Return the first line of ``new`` with the number of a step that ``written`` does not have.

    None where there is no such line, or ``written`` has no steps to compare with. Lines that speak
    of waiting may repeat the number of the step that hangs, and count the time.
    """
    known = set(_steps(written))
    furthest = dict(sorted(known, key=lambda step: int(step[1])))
    for line in new.splitlines():
        steps = [step for step in _steps(line) if step not in known] if known else []
        # Of so many in all it counts on; a step may begin anew with the next epoch.
        if any(b"/" not in name or int(n) > int(furthest.get(name, n)) for name, n in steps):
            return line.decode("utf-8", "replace").strip()
    return None


def _steps(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in text.splitlines():
        if _COUNTS.no_step.search(line) is None:
            for m in _COUNTS.step.finditer(line):
                of_many = (m[4] and m[4] + b"/" + m[6]) or (m[9] and m[9] + b"/" + m[8])
                done = m[10] and m[10] + b" " + m[12]
                yield m[1] or of_many or done or b"", m[2] or m[3] or m[5] or m[7] or m[11]
