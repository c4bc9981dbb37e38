"""torchrun's error file: a traceback wrapped in JSON, unfolded so that it reads as a log.

``@record`` writes ``error.json`` into the worker's log folder (``TORCHELASTIC_ERROR_FILE``):
``{"message": {"message": "ValueError: …", "extraInfo": {"py_callstack": "Traceback …",
"timestamp": "1700000000"}}}``; others write ``{"message": "…", "timestamp": …}``.
"""

from __future__ import annotations

import io
from datetime import datetime, timezone
from typing import Any

import msgspec

from whyhang.analyzer.facts import replace
from whyhang.analyzer.reading import Document

MAX_BYTES = 1 << 20


def unfold(document: Document) -> Document:
    """Return the text that an error file holds, as a document; others as they are."""
    head = document.head
    if document.size > MAX_BYTES or not head.lstrip().startswith(b"{") or b'"message"' not in head:
        return document
    if not (b"py_callstack" in head or b'"extraInfo"' in head or b'imestamp"' in head):
        return document
    try:
        with document.open() as stream:
            content: Any = msgspec.json.decode(stream.read(MAX_BYTES + 1))
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
