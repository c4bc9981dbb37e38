"""The files of a bundle that hold what whyhang itself read, written and read back.

They are JSON of one shape::

{"whyhang": "processes", "format": 1, "facts": [ {...}, ... ]}
"""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from whyhang.analyzer.facts import (
    Excerpt,
    Exit,
    Fact,
    FileView,
    Gap,
    GroupConnections,
    Process,
    Record,
    Source,
    StoreView,
    replace,
)
from whyhang.analyzer.reading import Document
from whyhang.analyzer.redact import redact_texts
from whyhang.collectors.files import claims
from whyhang.collectors.files.bundle import DAMAGE, FORMAT
from whyhang.collectors.stacks.frames import shared


def facts_file(kind: str, facts: Iterable[Fact | claims.ClaimRow]) -> bytes:
    """Write facts as JSON for people to read: each field on a line, unknown ones left out.

    No text in it looks like a secret.
    """
    rows = ",\n".join(_row(fact) for fact in facts)
    head = f'{{\n  "whyhang": "{kind}",\n  "format": {FORMAT},\n  "facts": ['
    return f"{head}\n{rows}\n  ]\n}}\n".encode()


def _row(fact: Fact | claims.ClaimRow) -> str:
    fields = redact_texts(msgspec.json.decode(msgspec.json.encode(fact)))
    lines = [
        f'      "{name}": {msgspec.json.encode(value).decode()}'
        for name, value in fields.items()
        if value is not None
    ]
    return "    {\n" + ",\n".join(lines) + "\n    }"


class _Facts(Record):
    """The shape of whyhang's own files; what the facts are depends on the kind."""

    whyhang: str
    format: int
    facts: tuple[msgspec.Raw, ...]


_Own: TypeAlias = (
    Process | StoreView | FileView | Excerpt | Exit | GroupConnections | claims.ClaimRow | Gap
)
_TYPES: dict[str, type[_Own]] = {
    "processes": Process,
    "stores": StoreView,
    "file_stores": FileView,
    "excerpts": Excerpt,
    "exits": Exit,
    "group_connections": GroupConnections,
    "claims": claims.ClaimRow,
    "gaps": Gap,
}


class OwnFiles:
    """Reads the files that whyhang wrote itself into a bundle."""

    name = "whyhang's own records"

    def sniff(self, document: Document) -> bool:
        """Say whether this is such a file."""
        return document.head.lstrip()[:20].replace(b"\n", b" ").startswith(b'{   "whyhang": "')

    owns = sniff  # nothing in it is for any other reader

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield the records; the source of each is the line on which it begins."""
        try:
            data = document.content()
            content = msgspec.json.decode(data, type=_Facts)
            wanted = _TYPES[content.whyhang]
        except (OSError, KeyError, *DAMAGE) as error:
            yield _unreadable(document, error)
            return
        lines = [n for n, line in enumerate(data.splitlines(), 1) if line == b"    {"]
        for number, raw in enumerate(content.facts):
            line = lines[number] if len(lines) == len(content.facts) else None
            try:
                fact = _fact(msgspec.json.decode(raw, type=wanted), document.source(line))
            except (ValueError, *DAMAGE) as error:
                yield _unreadable(document, error)
                continue
            if fact is not None:
                yield fact


def _fact(row: _Own, source: Source) -> Fact | None:
    """Return what a row says, with its source; None where a newer whyhang wrote it."""
    if isinstance(row, claims.ClaimRow):
        return claims.statement(replace(row, source=source))
    if isinstance(row, Process):
        texts = ("name", "state", "wchan", "syscall")
        return replace(
            row,
            source=source,
            command=shared(row.command),
            cwd=shared(row.cwd),
            environ={name: shared(value) for name, value in row.environ.items()},
            descriptors=tuple(map(shared, row.descriptors)),
            threads=tuple(
                replace(thread, **{name: shared(getattr(thread, name)) for name in texts})
                for thread in row.threads
            ),
        )
    if isinstance(row, StoreView | FileView | Exit | GroupConnections):
        return replace(row, source=source)
    return row


def _unreadable(document: Document, error: Exception) -> Gap:
    return document.gap(
        f"it is damaged ({str(error)[:120]})",
        cost="what whyhang itself saw of the processes is not known",
        remedy="Collect again with whyhang collect PID",
    )
