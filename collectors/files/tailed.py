"""Several files in one, as ``head`` and ``tail`` print them: each below ``==> its name <==``.

Each part is a file of its own, called by its name behind that of the whole: whose it is, and where
it ends, tells as much as of files that lie beside each other.
"""

import functools
import io
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from whyhang.analyzer.facts import Trust, Who, replace
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import naming

_HEADING = re.compile(rb"^==> (?P<name>[^\n<>]{1,300}) <==\r?$\n?", re.MULTILINE)
MOST_PARTS = 4096


def parts(document: Document) -> Sequence[Document]:
    """Return the files that a text holds, or the text itself where it is none of several.

    Only of a text that is at hand as a whole, as is what people print so, and that begins so.
    """
    head = document.head
    if document.size != len(head) or head.lstrip()[:4] != b"==> ":
        return [document]
    headings = list(_HEADING.finditer(head))
    if not 2 <= len(headings) <= MOST_PARTS or head[: headings[0].start()].strip():
        return [document]
    names = [heading["name"].decode("utf-8", "replace").strip() for heading in headings]
    if len(set(names)) != len(names):
        return [document]
    tails = [PurePosixPath(name).as_posix().lstrip("/.") for name in names]
    ends = [*(heading.start() for heading in headings[1:]), len(head)]
    return [
        _part(document, tail, head[heading.end() : end].rstrip(b"\n") + b"\n", owner)
        for tail, heading, end, owner in zip(
            tails, headings, ends, naming.together(tails), strict=True
        )
    ]


def _part(document: Document, name: str, data: bytes, owner: Who) -> Document:
    known = document.who.trust > Trust.FILE_NAME  # a manifest says more than a name
    return replace(
        document,
        path=f"{document.path}/{name}",
        head=data,
        size=len(data),
        open=functools.partial(io.BytesIO, data),
        who=document.who if known else naming.join(owner, replace(document.who, rank=None)),
        local=None,
    )
