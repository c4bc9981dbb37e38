"""Steps that a job writes to its logs while it is looked at: it goes on, whatever its stacks show.

A script without functions has no variables that could be compared, and one that sleeps, reads or
computes between two short collectives is hardly ever caught in these.
"""

import itertools
import re
from collections.abc import Iterator, Mapping

from whyhang.analyzer.facts import Source, StepsWritten
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.probes.logs import MAX_FILES, candidates
from whyhang.collectors.live.probes.probe import Site

MOST = 64 << 10
"""Bytes of what a log has grown by."""

BEFORE = 4 << 10
"""Bytes before that, in which the last steps stand."""

LONGEST = 200
"""Characters of a line that are kept."""

_UNITS = rb"%|[kmgt]?i?b\b|bytes|m?s\b|sec|min|w\b|\xc2\xb0"
_NO_COUNT = (
    rb"\w*(?:rank|node|worker|gpu|host|process|mem|used|free|cache|util|load|elapsed|queue|temp"
    rb"|power|swap|disk)"
)
_STEP = re.compile(
    rb"(?i)\b(?:global[_ ])?"
    rb"(step|iter(?:ation)?|it|epoch|batch|update|round)+s?\b"  # two ranks write "stepstep 44"
    rb"\W{0,4}\[?(\d{1,12})"
    rb"|(\d{1,12})/\d+ \[\d\d:\d\d"  # a progress bar
    # "eval 12/400": no date, nobody's number, and nothing that goes up while a job hangs
    rb"|\b(?!" + _NO_COUNT + rb")([a-z]\w*)\W{1,4}(\d{1,12})(?:/| of )(\d+)\b"
    rb"(?![/.:-]|\s*(?:" + _UNITS + rb"))"
    # "round 0: 12/40 labels": a count of as many things
    rb"|(?<![\w./:-])(\d{1,12})(?:/| of )(\d{1,12}) (?!"
    + _UNITS
    + rb"|"
    + _NO_COUNT
    + rb")([a-z]{3,})\b"
    # "merged 332000 rows": how many of them are done with
    rb"|\b([a-z]{3,}ed) (\d{1,12}) (?!(?:seconds|minutes|hours|times|attempts|tries)\b|"
    + _UNITS
    + rb"|"
    + _NO_COUNT
    + rb")([a-z]{3,})\b"
)
_NO_STEP = re.compile(
    rb"(?i)\b(?:wait|stuck|hang|hung|stall|time[d ]*out|no progress|watchdog"
    rb"|retr(?:y|ies)|retried|fail|drop|skip|elaps|attempt|tr(?:y|ies)\b|poll)"
)


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
        if _NO_STEP.search(line) is None:
            for m in _STEP.finditer(line):
                of_many = (m[4] and m[4] + b"/" + m[6]) or (m[9] and m[9] + b"/" + m[8])
                done = m[10] and m[10] + b" " + m[12]
                yield m[1] or of_many or done or b"", m[2] or m[3] or m[5] or m[7] or m[11]
