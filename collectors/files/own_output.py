"""What whyhang itself wrote is no evidence: reports beside the logs, and words within a job's log.

A report that was kept beside the logs, or that ``whyhang watch`` printed into the output of the
batch script that runs the job, holds stacks, ranks and lines of evidence. Read once more, an
earlier guess would look like something that somebody saw. Each report begins with its verdict and
ends with the version that wrote it (``analyzer/reports/page.py``).
"""

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from whyhang.analyzer.reading import HEAD_BYTES

_BOM = b"\xef\xbb\xbf"
_PICKLE = b"\x80"  # no text begins so
_MARKS = (
    (b"{", (b'"verdict"', b'"headline"')),  # JSON, and what is made of it
    (b"{", (b'"name": "whyhang"', b'"$schema"')),  # SARIF
    (b"<!doctype html>", (b'name="generator" content="whyhang ',)),
    (b"digraph waits {", (b"// whyhang",)),
    (b"<", (b'<testsuites name="whyhang"',)),
)
"""How a file begins that holds nothing else, and what stands in its first bytes."""

_FIRST_BYTES = 16 << 10
_ESCAPES = rb"(?:\x1b\[[\d;]*m)*"
_FIRST_LINE = re.compile(
    rb"^" + _ESCAPES + rb"(?:\*\*| )(?:HUNG|FAILED|SLOW|HEALTHY|INCONCLUSIVE)(?:\*\*| )",
    re.MULTILINE,
)
_LAST_LINE = re.compile(rb"\bby\s+whyhang\s+\d[^\n]*(?:\s*</details>)?")
_MESSAGE = re.compile(
    rb"^(?:whyhang \d\d:\d\d:\d\d |\*\*(?:HUNG|FAILED|SLOW|HEALTHY|INCONCLUSIVE)\*\* )[^\n]*",
    re.MULTILINE,
)
"""What a watch says, and the first line of a report where somebody kept no more of it."""


def is_report(head: bytes) -> bool:
    """Return whether a file that begins like this is a report of whyhang, and nothing else."""
    if head.startswith(_PICKLE):
        return False
    start = head[:_FIRST_BYTES].removeprefix(_BOM).lstrip()
    if any(start.startswith(first) and all(m in start for m in marks) for first, marks in _MARKS):
        return True
    return b"whyhang" in head and bool(head.strip()) and not without_reports(head).strip()


def is_report_file(path: str) -> bool:
    """Return whether a path leads to such a file; not where it cannot be read."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            return is_report(file.read(HEAD_BYTES))
    except OSError:
        return False


def without_reports(data: bytes) -> bytes:
    """Blank the reports in a text, and what a watch said; all lines keep their numbers."""
    if data.startswith(_PICKLE) or (b"whyhang" not in data and b"**" not in data):
        return data
    return _MESSAGE.sub(b"", b"".join(_pieces(data)))


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yield a text piece by piece; of a report, which ends at its last line, only the line ends."""
    done = 0
    for last in _LAST_LINE.finditer(data):
        first = deque(_FIRST_LINE.finditer(data, done, last.start()), maxlen=1)
        if first:
            yield data[done : first[0].start()]
            yield b"\n" * data.count(b"\n", first[0].start(), last.end())
            done = last.end()
    yield data[done:]
