"""What failed in words that no signature knows, as the reader of such lines names it.

What a signature knows about the same line is better. What a job went on after was no cause.
"""

import re
from typing import Literal, get_args

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, SignOfLife
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT
from whyhang.analyzer.rank_state.log_ends import have_ended

FAILED = "failed: "
"""What the log reader begins the name of such a line with; the object follows."""
Failing = Literal[
    "rdma",
    "links",
    "peer access",
    "lost gpu",
    "gpu",
    "device memory",
    "shared memory",
    "host memory",
    "port",
    "name",
    "lock",
    "storage",
    "call",
    "placement",
    "members",
    "coordinator",
    "service",
    "transport",
    "peer",
    "address",
    "process",
]

NAMES = tuple(FAILED + what for what in get_args(Failing))
"""All names of such lines."""
MOST_COMPARED = 200
_NUMBERS = re.compile(r"\d+")
_GOT_OVER = re.compile(
    r"(?i)\bwarn|\bretry|\bretries|attempt|\bskip|fall(?:ing|s)?[ -]?back|\bdisabl|\bignor|\binfo\b"
    r"|\bdebug\b|deprecat|\bcancel|aborted by|\bwill be|\bmay be\b|\bif you|optional"
)
OF_PEER = re.compile(
    r"(?i)timed? ?out|timeout|\bretr|reachable|refused|\breset\b|remote|\bpeer\b|disconnect|respons"
)
"""Words of who could not get through to another one, which may be at fault as well."""
_ENDS = re.compile(r"(?i)error|exception|fatal|critical|abort|terminat|^E\d{4} |what\(\):")


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


def strength_of(text: str) -> float:
    """Return how surely a line tells of what nobody got over."""
    if _GOT_OVER.search(text):
        return GUESSED
    return CLEAR if _ENDS.search(text) else INDIRECT
