"""NCCL's last words on why a call failed, as PyTorch repeats them.

Since torch 2.0 the message of a failed call ends with "Last error:" and, on the line behind it,
the last WARN that NCCL had (``ncclGetLastError``, NCCL 2.13 and later), even where NCCL_DEBUG is
not set. Each becomes a ``LogLine`` whose text is that line, with the field ``reason``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import Fact, LogLine, replace
from whyhang.collectors.logs.found import FileView, Found, Handler

if TYPE_CHECKING:
    import regex

LAST_ERROR = "nccl-last-error"
HEADING = r"Last error: *$"
MAX_ERRORS = 1000  # of one file
MAX_REASON = 300

_NO_REASON = re.compile(
    r"\s*$|Exception raised from |frame #\d|Traceback |The above exception|\s*File "
)


class LastErrorReader:
    """Collects the reasons that NCCL gave."""

    def __init__(self, file: FileView) -> None:
        self._file = file
        self._lines: list[LogLine] = []

    def watches(self) -> dict[str, Handler]:
        """Give the patterns to look for, and what to call with each line found."""
        return {HEADING: self.on_heading}

    def on_heading(self, found: Found, match: regex.Match[str]) -> None:  # noqa: ARG002 - a handler
        """Read the line behind the heading, if it is a reason."""
        if len(self._lines) >= MAX_ERRORS:
            return
        for number, line in found.following(1, bare=True):
            if _NO_REASON.match(line.text):
                return
            text = line.text.strip()
            self._lines.append(
                LogLine(
                    who=found.who,
                    text=text,
                    source=self._file.document.source(number),
                    matched=(LAST_ERROR,),
                    fields={"reason": text[:MAX_REASON].rstrip(".")},
                    time=found.time,
                    offset=found.offset,
                )
            )

    def facts(self) -> Iterator[Fact]:
        """Give the reasons, in the order of the file."""
        for line in self._lines:
            yield replace(line, who=self._file.resolve(line.who))
