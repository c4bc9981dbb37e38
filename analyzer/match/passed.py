"""Trouble that is over: the line that ends it follows, and the job shows no harm."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.log import quote
from whyhang.analyzer.rank_state.ends import LOST_PEER


class Passed(Record):
    """Every line that tells of trouble is followed by one that says that it is over.

    The first of ``patterns`` tells of trouble, the second of its end; the field ``key``, the same
    in both, says with what (a server, a device). A job that was seen to stop may have been stopped
    by it all the same, so nothing is over where anything tells of that.
    """

    patterns: tuple[str, str]
    key: str

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit if all of it is over."""
        job = case.job
        if job.exits or job.tracks or any(m.dumps or m.processes for m in job.members):
            return ()
        if any(_harm(line) for line in job.lines):
            return ()
        trouble, ends = (job.lines_with((pattern,)) for pattern in self.patterns)
        if not trouble or any(self._lasts(line, trouble, ends) for line in trouble):
            return ()
        return (Hit(evidence=tuple(quote(line) for line in ends[:1]), names_culprit=False),)

    def _lasts(self, line: LogLine, trouble: list[LogLine], ends: list[LogLine]) -> bool:
        """Tell whether nothing after a line, nor after those folded into others, ends it."""
        begun = [
            _place(other)
            for other in trouble
            if _same(other, line, None if other.count > 1 else self.key)
        ]
        over = [_place(end) for end in ends if _same(end, line, self.key)]
        return not over or max(over) < max(begun)


def _harm(line: LogLine) -> bool:
    return "python-exception" in line.matched or LOST_PEER.search(line.text) is not None


def _place(line: LogLine) -> int:
    return line.source.line or 0


def _same(a: LogLine, b: LogLine, key: str | None) -> bool:
    """Tell whether two lines of one file speak of the same thing, or of anything."""
    one = key is None or a.fields.get(key) == b.fields.get(key)
    return one and a.source.file == b.source.file


def passed(trouble: str, end: str, *, key: str) -> Passed:
    """Ask whether trouble is over; see ``Passed``."""
    return Passed(patterns=(trouble, end), key=key)
