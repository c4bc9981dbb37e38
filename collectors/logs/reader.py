"""Logs: the few lines that matter in gigabytes of text, and what they say.

The patterns to look for come in from outside (the signatures'), and the readers of torch's,
NCCL's, the launchers' and the kernel's own lines add theirs. All are searched for in one pass;
only the lines found are taken apart. What comes out are ``LogLine`` facts for the outside
patterns, and structured facts from the readers.

A traceback that torchrun wrapped in JSON is unfolded so that it reads as a log. ``@record`` writes
``error.json`` into the worker's log folder (``TORCHELASTIC_ERROR_FILE``): ``{"message": {"message":
"ValueError: …", "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1700000000"}}}``; others
write ``{"message": "…", "timestamp": …}``.
"""

import io
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import msgspec

from whyhang.analyzer.facts import Fact, Gap, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.logs.engine.byte_blocks import Progress
from whyhang.collectors.logs.engine.matching import Patterns
from whyhang.collectors.logs.engine.search import Searcher, searcher
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.lines.readers import ONCE_A_BLOCK, OWN_PATTERNS
from whyhang.collectors.logs.scan import FileScan

_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\n\r\x1b\0" + bytes(range(0x80, 0x100))
_BINARY_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x7fELF", b"PK\x03\x04", b"\x89PNG")
THREADS_FROM = 8 << 20  # bytes of a log from which on threads help
MAX_THREADS = 4
MAX_BINARY = 0.02  # share of control characters in a text, or of bytes that are not its UTF-8
CUT_CHARACTER = 3  # bytes of one at the end of what is looked at
MAX_HIGH = 0.5  # share of bytes beyond ASCII in a text that is not UTF-8


class LogReader:
    """Reads any text as a log. ``patterns`` are those of the signatures.

    ``owners`` says of patterns by users which card they are from. ``progress`` is called with every
    number of bytes read, for a progress display. ``engine`` "words" does without Hyperscan.
    """

    def __init__(
        self,
        patterns: Iterable[str],
        *,
        owners: Mapping[str, str] | None = None,
        progress: Progress = lambda _: None,
        engine: str = "auto",
    ) -> None:
        self.patterns = frozenset(patterns)
        self._patterns = Patterns(self.patterns, OWN_PATTERNS, owners or {})
        self._progress = progress
        self._engine = engine
        self._searcher: Searcher | None = None
        self._gaps: tuple[Gap, ...] = ()
        self._process = os.getpid()

    @property
    def name(self) -> str:
        """Name the format."""
        return "log"

    def sniff(self, document: Document) -> bool:
        """Take whatever looks like text."""
        return looks_like_text(document.head)

    def ready(self) -> Searcher:
        """Load the patterns, if they are not yet."""
        if self._searcher is None:
            self._searcher, self._gaps = searcher(
                self._patterns.texts, once=ONCE_A_BLOCK, engine=self._engine
            )
        return self._searcher

    def read(self, document: Document) -> Iterator[Fact]:
        """Scan one file. What cannot be read to its end yields what was read, and a gap."""
        searching = self.ready()
        yield from self._gaps
        document = unfold(document)
        threads = min(MAX_THREADS, os.cpu_count() or 1) if searching.threaded else 1
        # A forked process has others beside it: it needs no threads.
        if document.size < THREADS_FROM or os.getpid() != self._process:
            threads = 1
        scan = FileScan(LogFile(document), searching, self._patterns, threads)
        yield from scan.facts(self._progress)


def looks_like_text(head: bytes) -> bool:
    """Return whether a file begins as a text; NUL runs and broken UTF-8 are text."""
    if not head or head.startswith(_BINARY_STARTS):
        return bool(not head)
    sample = head[: 64 << 10]
    control = len(sample.translate(None, _PRINTABLE))
    if control > MAX_BINARY * len(sample) + 1:
        return False
    zeros = sample.count(0)
    high = len(sample.translate(None, bytes(range(0x80))))
    if high > MAX_HIGH * len(sample):
        broken = len(sample) - len(sample.decode("utf-8", "ignore").encode())
        return broken <= MAX_BINARY * len(sample) + CUT_CHARACTER
    return zeros < len(sample) // 2 or zeros == len(sample)


MAX_BYTES = 1 << 20


def unfold(document: Document) -> Document:
    """Return the text that an error file holds, as a document; others as they are."""
    head = document.head
    if document.size > MAX_BYTES or not head.lstrip().startswith(b"{") or b'"message"' not in head:
        return document
    if not (b"py_callstack" in head or b'"extraInfo"' in head or b'imestamp"' in head):
        return document
    try:
        content: Any = msgspec.json.decode(document.content(MAX_BYTES + 1))
    except (OSError, msgspec.DecodeError):
        return document
    text = _text(content)
    if text is None:
        return document
    data = text.encode()
    return replace(document, head=data, size=len(data), open=lambda: io.BytesIO(data), local=None)


def _text(content: Any) -> str | None:
    message = content.get("message") if isinstance(content, dict) else None
    inner = message if isinstance(message, dict) else content
    extra = inner.get("extraInfo") if isinstance(inner, dict) else None
    extra = extra if isinstance(extra, dict) else {}
    stack = extra.get("py_callstack")
    words = inner.get("message") if isinstance(inner, dict) else None
    parts = [part for part in (stack, None if stack else words) if isinstance(part, str)]
    if not parts:
        return None
    stamps = (extra.get("timestamp"), content.get("timestamp"), content.get("errorTimestamp"))
    return "\n".join([*(_time(stamp) for stamp in stamps if stamp), *parts]) + "\n"


def _time(stamp: object) -> str:
    try:
        moment = datetime.fromtimestamp(float(str(stamp)), tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
