"""A text or bytes as a file that a reader is offered."""

from __future__ import annotations

import functools
import io

from whyhang.analyzer.facts import Who
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.collectors.files import naming


def document(
    content: str | bytes, path: str, who: Who | None = None, *, taken_at: float | None = None
) -> Document:
    """Make a document, named as if it came from a folder; ``who`` follows from its name."""
    data = content.encode() if isinstance(content, str) else content
    return Document(
        path=path,
        head=data[:HEAD_BYTES],
        size=len(data),
        open=functools.partial(io.BytesIO, data),
        who=naming.from_path(path) if who is None else who,
        taken_at=taken_at,
    )
