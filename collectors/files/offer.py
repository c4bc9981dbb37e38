"""One document, offered to every reader that knows its form.

``head`` and ``tail`` print several files as one, each below ``==> its name <==``; a loop of the
shell prints them below banners, as ``=== rank 3 ===`` or ``--- rank3.log``. Each part is a file of
its own, called by its name behind that of the whole: whose it is, and where it ends, tells as much
as of files that lie beside each other.
"""

import functools
import io
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Protocol, runtime_checkable

from whyhang.analyzer.facts import Fact, Gap, Trust, Who, replace
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors import limits
from whyhang.collectors.files import naming, own_output

_HEADING = re.compile(
    rb"^(?:==> (?P<name>[^\n<>]{1,300}) <==|(?P<rule>[=#*-])(?P=rule){2,40} *"
    rb"(?P<banner>[\w./][\w ./:-]{0,80}?) *(?P=rule){0,40}:?)\r?$\n?",
    re.MULTILINE,
)
_RULES = (b"==> ", b"===", b"###", b"***", b"---")
MOST_PARTS = 4096


@runtime_checkable
class Owner(Protocol):
    """A reader that can tell when a file is of its form from end to end.

    No other reader then looks at it: ten thousand dumps need no search for log lines, and
    a command line in a bundle is not taken for one.
    """

    def owns(self, document: Document) -> bool:
        """Say whether nothing in this document is for any other reader."""


def facts_of_document(document: Document, readers: Sequence[Reader]) -> list[Fact]:
    """Offer a document to each reader; one that fails costs what it did not read, told first."""
    if not document.size:
        return [document.gap("it is empty")]
    if own_output.is_report(document.head):
        return [document.gap("it is a report of whyhang, and no evidence")]
    gaps: list[Gap] = []
    parts = _parts(_without_reports(document))
    facts = [fact for part in parts for fact in _facts_of_part(part, readers, gaps)]
    return [*gaps, *facts]


def _facts_of_part(document: Document, readers: Sequence[Reader], gaps: list[Gap]) -> list[Fact]:
    budget = limits.Budget(document.size)
    known = _known(document, readers, budget, gaps)
    if not known and PurePosixPath(document.path).suffix.lower() not in naming.ORDINARY:
        gaps.append(document.gap("it is of no kind that whyhang reads"))
    return [fact for reader in known for fact in _read(reader, document, budget, gaps)]


def _without_reports(document: Document) -> Document:
    """Take out what whyhang wrote into a text that is at hand as a whole, as most logs are."""
    if document.size != len(document.head):
        return document
    data = own_output.without_reports(document.head)
    if data == document.head:
        return document
    return replace(document, head=data, size=len(data), open=lambda: io.BytesIO(data), local=None)


def _known(
    document: Document, readers: Sequence[Reader], budget: limits.Budget, gaps: list[Gap]
) -> list[Reader]:
    """Return the readers that know a document: the one that owns it, else all of them."""
    known: list[Reader] = []
    with budget:
        for reader in readers:
            try:
                knows = reader.sniff(document)
                if knows and isinstance(reader, Owner) and reader.owns(document):
                    return [reader]
            except limits.TooSlowError:
                knows = True  # reading it says where
            except Exception as error:  # noqa: BLE001 - a note is made of it
                gaps.append(_failed(document, reader, error))
                continue
            if knows:
                known.append(reader)
    return known


def _read(reader: Reader, document: Document, budget: limits.Budget, gaps: list[Gap]) -> list[Fact]:
    facts: list[Fact] = []
    try:
        with budget:
            facts.extend(reader.read(document))  # what comes before an error stays
    except limits.TooSlowError as error:
        gaps += budget.gaps(document, error)
    except Exception as error:  # noqa: BLE001 - a note is made of it
        gaps.append(_failed(document, reader, error))
    return facts


def _failed(document: Document, reader: Reader, error: Exception) -> Gap:
    return document.gap(
        f"the reader failed ({type(error).__name__}: {str(error)[:160]})",
        what=f"reading {document.path} as {reader.name}",
        cost="what it says in that form is not known, or not all of it",
        remedy="Please report this file as a bug of whyhang",
    )


def _parts(document: Document) -> Sequence[Document]:
    """Return the files that a text holds, or the text itself where it is none of several.

    Only of a text that is at hand as a whole, as is what people print so, and that begins so.
    """
    head = document.head
    if document.size != len(head) or not head.lstrip().startswith(_RULES):
        return [document]
    headings = [(name, match) for match in _HEADING.finditer(head) if (name := _name(match))]
    names = [name for name, _ in headings]
    few = not 2 <= len(headings) <= MOST_PARTS or len(set(names)) != len(names)
    if few or head[: headings[0][1].start()].strip():
        return [document]
    tails = [PurePosixPath(name).as_posix().lstrip("/.") for name in names]
    ends = [*(heading.start() for _, heading in headings[1:]), len(head)]
    return [
        _part(document, tail, head[heading.end() : end].rstrip(b"\n") + b"\n", owner)
        for tail, (_, heading), end, owner in zip(
            tails, headings, ends, naming.together(tails), strict=True
        )
    ]


def _name(heading: re.Match[bytes]) -> str | None:
    """Return the name in a heading; what stands in a banner is one if it tells whose a file is."""
    name = (heading["name"] or heading["banner"]).decode("utf-8", "replace").strip()
    named = heading["name"] is not None or naming.from_path(name).trust is Trust.FILE_NAME
    return name if named else None


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
