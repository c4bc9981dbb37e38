"""What failed in words that no signature knows, as the reader of such lines names it.

What a signature knows about the same line is better. What a job went on after was no cause.
"""

import re
from collections.abc import Iterator
from typing import Literal, get_args

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, SignOfLife
from whyhang.analyzer.facts.times import latest
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.evidence import cite_line, members_of
from whyhang.analyzer.queries.failures import has_no_ranks_to_blame, raised_by
from whyhang.analyzer.rank_state.log_ends import have_ended

FAILED = "failed: "
"""What the log reader begins the name of such a line with; the object follows."""
Failing = Literal[
    "rdma",
    "links",
    "peer access",
    "gpu",
    "device memory",
    "shared memory",
    "host memory",
    "port",
    "name",
    "lock",
    "storage",
    "call",
    "members",
    "coordinator",
    "service",
    "transport",
    "address",
    "process",
]

NAMES = tuple(FAILED + what for what in get_args(Failing))
"""All names of such lines."""
MAX_QUOTES = 4
MOST_COMPARED = 200
_NUMBERS = re.compile(r"\d+")
_GOT_OVER = re.compile(
    r"(?i)\bwarn|\bretry|\bretries|attempt|\bskip|fall(?:ing|s)?[ -]?back|\bdisabl|\bignor|\binfo\b"
    r"|\bdebug\b|deprecat|\bcancel|aborted by|\bwill be|\bmay be\b|\bif you|optional"
)
_OF_PEER = re.compile(
    r"(?i)timed? ?out|timeout|\bretr|reachable|refused|\breset\b|remote|\bpeer\b|disconnect|respons"
)
"""Words of who could not get through to another one, which may be at fault as well."""
_ENDS = re.compile(r"(?i)error|exception|fatal|critical|abort|terminat|^E\d{4} |what\(\):")


def failed(case: Case, what: Failing, *, of_speaker: bool = False) -> Iterator[Hit]:
    """Yield one hit for the lines that say that something failed about this object.

    ``of_speaker``: it is the fault of who says so, or of its host, as long as others do not. Whom
    an exception of these words ended is named as with any other exception.
    """
    lines = failed_lines(case, FAILED + what)
    if not lines:
        return
    ends = {line.source for line in case.job.lines if line.raised is not None}
    last = [line for line in lines if line.source in ends]
    ranks = raised_by(case, last or lines) if last or of_speaker else ()
    if has_no_ranks_to_blame(case, ranks):
        ranks = ()
    first = min(lines, key=_when)
    members, unseen = members_of(case, ranks)
    yield Hit(
        members=members,
        ranks=unseen,
        evidence=tuple(cite_line(line) for line in _different(lines)),
        names_culprit=bool(ranks) or not any(_OF_PEER.search(line.text) for line in lines),
        strength=max(_strength(line.text) for line in lines),
        fields={"what": first.fields["what"]},
        at=first.time,
    )


def failed_lines(case: Case, *names: str) -> list[LogLine]:
    """List lines so named that no signature looks for, and that nobody went on after."""
    lines = case.job.lines_with(names)
    if not lines or have_ended(case.job):
        return []
    known = {
        _alike(line.text)
        for line in case.job.lines
        if any(not name.startswith(FAILED) for name in line.matched)
    }
    alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    return [
        line
        for line in lines
        if _alike(line.text) not in known
        and alive.get(line.source.file, 0) < (line.source.line or 0)
    ]


def _alike(text: str) -> str:
    """Return what lines have in common that differ in numbers only."""
    return _NUMBERS.sub("N", text)[:MOST_COMPARED]


def _strength(text: str) -> float:
    """Return how surely a line tells of what nobody got over."""
    if _GOT_OVER.search(text):
        return GUESSED
    return CLEAR if _ENDS.search(text) else INDIRECT


def _different(lines: list[LogLine]) -> list[LogLine]:
    """Pick lines to quote: those of each rank that say the same only once."""
    seen = {(line.who.rank, line.fields["what"]): line for line in reversed(lines)}
    return sorted(seen.values(), key=_when)[:MAX_QUOTES]


def _when(line: LogLine) -> tuple[float, str, int]:
    return (latest(line.time), line.source.file, line.source.line or 0)
