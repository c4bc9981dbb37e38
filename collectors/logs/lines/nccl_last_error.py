"""NCCL's last words on why a call failed, as PyTorch repeats them.

Since torch 2.0 the message of a failed call ends with "Last error:" and, on the line behind it,
the last WARN that NCCL had (``ncclGetLastError``, NCCL 2.13 and later), even where NCCL_DEBUG is
not set. Each becomes a ``LogLine`` whose text is that line, with the field ``reason``.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Fact, LogLine, replace
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

LAST_ERROR = "nccl-last-error"
MAX_ERRORS = 1000  # of one file
MAX_REASON = 300

_NO_REASON = re.compile(
    r"\s*$|Exception raised from |frame #\d|Traceback |The above exception|\s*File "
)


class LastErrorReader(LineReader):
    """Collects the reasons that NCCL gave."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: list[LogLine] = []

    @wants(r"Last error: *$")
    def on_heading(self, line: FoundLine, match: Match) -> None:
        """Read the line behind the heading, if it is a reason."""
        if len(self._lines) >= MAX_ERRORS:
            return
        for number, after in line.following(1, bare=True):
            if _NO_REASON.match(after.text):
                return
            text = after.text.strip()
            self._lines.append(
                LogLine(
                    who=line.who,
                    text=text,
                    source=self._file.document.source(number),
                    matched=(LAST_ERROR,),
                    fields={"reason": text[:MAX_REASON].rstrip(".")},
                    time=line.time,
                    offset=line.offset,
                )
            )

    def facts(self) -> Iterator[Fact]:
        """Yield the reasons, in the order of the file."""
        for line in self._lines:
            yield replace(line, who=self._file.resolve(line.who))
