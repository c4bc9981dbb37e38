"""Matchers over NCCL's own words on what went wrong, where no signature knows them."""

from __future__ import annotations

import re

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Record, SignOfLife
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import quote

LAST_ERROR = "nccl-last-error"  # the name under which the log reader gives "Last error:"
WARNING = r"NCCL WARN (?P<what>\S.*)"
MAX_QUOTES = 4
_FAILED = re.compile(r"NCCL (?:[Ee]rror|failure)\b|\bnccl[A-Z]\w+Error: ")


class Warned(Record):
    """NCCL warns of something that no signature knows, and the job is not seen to go on after it.

    ``failed``: ask for what NCCL said when a call of it failed: its last error, else a warning
    that nobody knows.
    """

    failed: bool = False
    patterns: tuple[str, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit, for the words that were said first."""
        lines = _strange(case)
        if self.failed:
            told = list(case.job.lines_with((LAST_ERROR,)))
            if not told and not any(_FAILED.search(line.text) for line in case.job.lines):
                return ()
            lines = told or lines
        if not lines:
            return ()
        first = min(lines, key=lambda line: (line.time or float("inf"), line.source.line or 0))
        what = first.fields.get("reason") or first.fields.get("what", "")
        return (
            Hit(
                names_culprit=False,
                evidence=tuple(quote(line) for line in _different(lines)),
                fields={"what": what.rstrip(". ")},
                at=first.time,
            ),
        )


def _strange(case: Case) -> list[LogLine]:
    """List warnings that no signature looks for, and that were not followed by work."""
    alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    return [
        line
        for line in case.job.lines_with((WARNING,))
        if set(line.matched) == {WARNING}
        and alive.get(line.source.file, 0) < (line.source.line or 0)
    ]


def _different(lines: list[LogLine]) -> list[LogLine]:
    seen = {line.fields.get("reason") or line.fields.get("what"): line for line in reversed(lines)}
    return sorted(seen.values(), key=lambda line: line.source.line or 0)[:MAX_QUOTES]


def nccl_warned() -> Warned:
    """Ask for a warning of NCCL that no signature knows; see ``Warned``."""
    return Warned(patterns=(WARNING,))


def nccl_said() -> Warned:
    """Ask for what NCCL said when a call of it failed; see ``Warned``."""
    return Warned(failed=True)
