"""What a host sends of what it collected: everything, but of long logs only what matters.

A log is read here by the very readers that will read it again. The lines that they take facts
from stay, with those around them, and so do its beginning and its end; the others become empty, so
that all have their numbers. What is equal among processes (stacks, environments, GPU rows) costs
next to nothing once it is packed: see ``bundle.archive``.
"""

from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import Gap, Who, counted, replace
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.bundle import (
    MANIFEST,
    Bundle,
    Entry,
    archive,
    document_of,
    manifest_file,
)
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.own_files import facts_file

SHORT = 64 << 10
"""A log up to so many bytes is sent as it is."""

BEGINNING, END = 8 << 10, 64 << 10
"""Bytes that are always sent of a log."""

BEFORE, AFTER = 8, 40
"""Lines around one that a fact was taken from: a traceback stands behind its first line."""

MOST_OF_A_LOG = 1 << 20
MOST = 5 << 20
"""Bytes, packed, that a host sends at once."""


def reduced(bundle: Bundle, readers: Sequence[Reader]) -> Bundle:
    """Return the bundle with its long logs cut to what matters."""
    files = dict(bundle.files)
    for entry in bundle.manifest.files:
        data = files[entry.path]
        if entry.kind == "log" and len(data) > SHORT:
            files[entry.path] = cut(data, _noted(document_of(entry, data), readers))
    return replace(bundle, files=files)


def packed(bundle: Bundle, paths: Iterable[str]) -> bytes:
    """Pack the manifest and these files; where that is too much, without the largest."""
    moment = bundle.manifest.created_at or 0.0
    files = {path: bundle.files[path] for path in paths}
    manifest, left_out = bundle.manifest, list[str]()
    while True:
        blob = archive({MANIFEST: manifest_file(manifest), **files}, moment)
        if len(blob) <= MOST or not files:
            return blob
        left_out.append(max(files, key=lambda path: len(files[path])))
        entries = tuple(entry for entry in manifest.files if entry.path not in left_out)
        folder = entries[0].path.partition("/")[0] if entries else ""
        path, host = f"{folder}/left_out.gaps.json", manifest.host
        files = {name: data for name, data in files.items() if name not in left_out}
        files[path] = facts_file("gaps", [_too_much(left_out, host)])
        entry = Entry(path=path, kind="gaps", host=host)
        kept = tuple(one for one in entries if one.path != path)
        manifest = replace(manifest, files=(*kept, entry))


def cut(data: bytes, lines: Iterable[int]) -> bytes:
    """Empty the lines of a log but those in ``lines`` (1-based), its beginning and its end.

    Where all that is more than ``MOST_OF_A_LOG``, what is earlier goes first.
    """
    parts = data.splitlines(keepends=True)
    kept = set(lines)
    kept |= _of_bytes(parts, range(len(parts)), BEGINNING)
    kept |= _of_bytes(parts, range(len(parts) - 1, -1, -1), END)
    left = MOST_OF_A_LOG
    for number in sorted(kept, reverse=True):
        left -= len(parts[number - 1]) if number <= len(parts) else 0
        if left < 0:
            kept.discard(number)
    return b"".join(part if number in kept else b"\n" for number, part in enumerate(parts, start=1))


def _of_bytes(parts: Sequence[bytes], order: Iterable[int], most: int) -> set[int]:
    """Return the numbers of the first lines in this order that make up ``most`` bytes."""
    numbers: set[int] = set()
    for place in order:
        most -= len(parts[place])
        if most < 0:
            break
        numbers.add(place + 1)
    return numbers


def _noted(document: Document, readers: Sequence[Reader]) -> Iterator[int]:
    """Yield the lines from which facts are taken, and those around them."""
    facts = read_documents([document], readers=readers)
    sources = (getattr(fact, "source", None) for fact in facts)
    last = 0
    for line in sorted({source.line for source in sources if source and source.line is not None}):
        yield from range(max(last + 1, line - BEFORE), line + AFTER + 1)
        last = max(last, line + AFTER)


def _too_much(paths: Sequence[str], host: str | None) -> Gap:
    return Gap(
        what=f"{counted(len(paths), 'file')} of host {host}, {paths[0]} among them",
        why=f"they are more than the {MOST >> 20} MiB that a host sends",
        cost="what they say is not known",
        remedy="run whyhang collect there by hand, which keeps everything",
        who=Who(host=host),
    )
