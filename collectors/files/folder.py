"""Read whatever people hand in: each file is offered to every reader that knows its form.

The one way in for files, and for what was just taken of a live job: both are documents. Here
live the decisions that need more than one file: whose a bare number in a name is, which dumps
are looks at one process, and that a thousand alike troubles are told once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.meter import Meter
from whyhang.analyzer.model import NOBODY, Fact, Gap, Source, StackDump, Who, replace
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors import limits
from whyhang.collectors.files import bundle, naming

if TYPE_CHECKING:
    from whyhang.collectors.files.archive import Item, Store

SHOWN = 3  # of alike troubles, so many are named
EVERY = 200  # files between two words on progress

# Files that stand beside evidence as a matter of course; no word is made of them.
_ORDINARY = frozenset(
    {".py", ".sh", ".md", ".rst", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".csv", ".ipynb"}
    | {".lock", ".sbatch", ".slurm"}
)


@runtime_checkable
class Owner(Protocol):
    """A reader that can tell when a file is of its form from end to end.

    No other reader then looks at it: ten thousand dumps need no search for log lines, and
    a command line in a bundle is not taken for one. Only those that say ``joins_owner`` do:
    they take something from that form which the owner leaves.
    """

    def owns(self, document: Document) -> bool:
        """Say whether nothing in this document is for any other reader."""


@runtime_checkable
class Apart(Protocol):
    """A reader of files that come by the thousand: several processes share the reading."""

    def apart(self, start: bytes, size: int) -> bool:
        """Tell from a file's first bytes and its size whether it may be one of these."""

    def ready(self) -> None:
        """Load what every one of these processes would have to load, before there are several."""


def read(
    paths: Sequence[str | Path],
    *,
    readers: Sequence[Reader] | Callable[[Sequence[bytes]], Sequence[Reader]],
    progress: Callable[[str], None] | None = None,
    store: Store | None = None,
    meter: Meter | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[Fact]:
    """Yield what files, folders and archives say. Troubles become gaps, never exceptions.

    ``readers`` may be a function that chooses them by the first bytes of every file.
    ``progress`` is told now and then, in words, how far the reading is, and ``meter`` all the
    time, in bytes. ``store`` holds what
    archives were unpacked to, so that facts with more behind them can be asked for it later;
    without one that ends with the reading. ``meanwhile`` is called once, while others read.
    """
    from whyhang.collectors.files.archive import Store, clean  # noqa: PLC0415 - not for live jobs

    gaps: list[Gap] = []
    meter = meter or Meter()
    with Store() if store is None else nullcontext(store) as opened:
        opened.meter = meter
        items: list[Item] = []
        for path, shown in zip(paths, _shown(paths), strict=True):
            before = len(items) + len(gaps)
            for found in opened.find(path, shown):
                if isinstance(found, Gap):
                    gaps.append(found)
                else:
                    items.append(found)
            if before == len(items) + len(gaps):
                gaps.append(
                    Gap(what=f"reading {shown or clean(str(path))}", why="no file is in it")
                )
            if progress is not None:
                progress(f"found {len(items):,} files")
        chosen = readers([item.start for item in items]) if callable(readers) else readers
        files = _Files(opened, items, chosen, gaps)
        meter.start("reading", sum(item.size for item in items), files=len(items))
        yield from _settled(files.facts(gaps, progress, meanwhile), gaps)
        meter.stop()


def read_documents(documents: Iterable[Document], *, readers: Sequence[Reader]) -> Iterator[Fact]:
    """Yield what documents say that are at hand already, as those of a live job are."""
    gaps: list[Gap] = []
    yield from _settled(_facts(documents, readers, gaps), gaps)


def _shown(paths: Sequence[str | Path]) -> list[str | None]:
    """Give each of several targets the shortest tail of its path that no other has."""
    if len(paths) < 2:
        return [None] * len(paths)
    from whyhang.collectors.files.archive import clean  # noqa: PLC0415 - see above

    parts = [PurePosixPath(Path(path).absolute()).parts for path in paths]
    tails: Counter[tuple[str, ...]] = Counter()
    for length in range(1, max(map(len, parts))):
        tails.update(own[-length:] for own in parts if length < len(own))
    return [clean(_tail(own, tails)) for own in parts]


def _tail(own: tuple[str, ...], tails: Mapping[tuple[str, ...], int]) -> str:
    for length in range(1, len(own)):
        tail = own[-length:]
        if tails[tail] == 1:
            return "/".join(tail)
    return "/".join(own).replace("//", "/")


class _Files:
    """The files that were found, in the order in which they are read."""

    def __init__(
        self, store: Store, items: Sequence[Item], readers: Sequence[Reader], gaps: list[Gap]
    ) -> None:
        self._store = store
        self._items = items
        self._readers = readers
        self._manifests = _manifests(store, items, gaps)
        self._owners = naming.together([item.path for item in items])
        place = self._manifests.place
        self._order = sorted(range(len(items)), key=lambda number: place(items[number].path))

    def facts(
        self,
        gaps: list[Gap],
        progress: Callable[[str], None] | None,
        meanwhile: Callable[[], object],
    ) -> Iterator[Fact]:
        """Read every file; those of a kind that comes by the thousand in several processes."""
        from whyhang.collectors.files import workers  # noqa: PLC0415 - a live look must not wait

        apart = self._apart()
        chunks = workers.chunked(list(apart), self._size)
        team = workers.worth_it(len(chunks))
        if team < 2:
            apart, chunks = {}, []
        for reader in dict.fromkeys(apart.values()):
            reader.ready()
        with closing(workers.in_order(self._all_of, chunks, team, meanwhile)) as shared:
            size = 0
            for done, number in enumerate(self._order):
                item = self._items[number]
                self._store.meter.at(size, item.path, file=done + 1)
                size += item.size
                if progress is not None and done % EVERY == 0:
                    progress(f"reading {done:,} of {len(self._items):,} files: {item.path}")
                if number in apart:
                    read, troubles = next(shared)
                    gaps += troubles
                    yield from read
                else:
                    yield from _facts(self._documents(number, gaps), self._readers, gaps)

    def _apart(self) -> dict[int, Apart]:
        """Find the files that are read by others, each with the reader it may be for."""
        fitting = [reader for reader in self._readers if isinstance(reader, Apart)]
        found: dict[int, Apart] = {}
        for number in self._order:
            item = self._items[number]
            reader = next((one for one in fitting if one.apart(item.start, item.size)), None)
            if reader is not None:
                found[number] = reader
        return found

    def _size(self, number: int) -> int:
        return self._items[number].size

    def _all_of(self, number: int) -> tuple[list[Fact], list[Gap]]:
        gaps: list[Gap] = []
        return list(_facts(self._documents(number, gaps), self._readers, gaps)), gaps

    def _documents(self, number: int, gaps: list[Gap]) -> Iterator[Document]:
        item = self._items[number]
        if self._manifests.is_manifest(item.path):
            return
        found = self._store.document(item, self._owners[number])
        if isinstance(found, Gap):
            gaps.append(found)
        else:
            yield self._manifests.told(found)


class _Manifests:
    """The manifests of the bundles among the files, each for the folder it is in."""

    def __init__(self, found: dict[str, bundle.Manifest]) -> None:
        self._folders = frozenset(found)
        self._entries = {
            f"{folder}{entry.path}": (entry, number)
            for folder, manifest in found.items()
            for number, entry in enumerate(manifest.files)
        }

    def is_manifest(self, path: str) -> bool:
        folder, name = path[: -len(bundle.MANIFEST)], path[-len(bundle.MANIFEST) :]
        return name == bundle.MANIFEST and folder in self._folders

    def place(self, path: str) -> int:
        """Order the files of a bundle as it lists them, the way the live run read them."""
        entry = self._entries.get(path)
        return -1 if entry is None else entry[1]

    def told(self, document: Document) -> Document:
        """Put what the manifest says of a file in place of what its name does."""
        found = self._entries.get(document.path)
        if found is None:
            return document
        entry, _ = found
        return replace(document, who=entry.who(), look=entry.look, taken_at=entry.taken_at)


def _manifests(store: Store, items: Sequence[Item], gaps: list[Gap]) -> _Manifests:
    found: dict[str, bundle.Manifest] = {}
    for item in items:
        if PurePosixPath(item.path).name != bundle.MANIFEST:
            continue
        document = store.document(item)
        if isinstance(document, Gap) or not bundle.is_manifest(item.path, document.head):
            continue
        try:
            with document.open() as stream:
                manifest = bundle.read_manifest(stream.read())
        except (BundleError, OSError) as error:
            gaps.append(
                Gap(
                    what=f"reading {item.path}",
                    why=error.message if isinstance(error, BundleError) else str(error),
                    cost="the files beside it are read for themselves",
                    remedy=error.remedy.rstrip(".") if isinstance(error, BundleError) else "",
                    source=Source(file=item.path),
                )
            )
        else:
            found[item.path[: -len(bundle.MANIFEST)]] = manifest
    return _Manifests(found)


def _facts(
    documents: Iterable[Document], readers: Sequence[Reader], gaps: list[Gap]
) -> Iterator[Fact]:
    """Offer each document to each reader; a reader that fails costs what it did not read."""
    for document in documents:
        if not document.size:
            gaps.append(_of_file(document, "it is empty"))
            continue
        owner: Reader | None = None
        known: list[Reader] = []
        budget = limits.Budget(document.size)
        for reader in readers:
            if owner is not None and not _joins(reader):
                continue
            if _knows(reader, document, budget, gaps):
                known.append(reader)
                if owner is None and _owns(reader, document, budget):
                    owner = reader
                    known = [own for own in known if own is owner or _joins(own)]
        for reader in known:
            yield from _offered(reader, document, budget, gaps)
        if not known and PurePosixPath(document.path).suffix.lower() not in _ORDINARY:
            gaps.append(_of_file(document, "it is of no kind that whyhang reads"))


def _joins(reader: Reader) -> bool:
    return getattr(reader, "joins_owner", False)


def _knows(reader: Reader, document: Document, budget: limits.Budget, gaps: list[Gap]) -> bool:
    try:
        with budget:
            return reader.sniff(document)
    except limits.TooSlowError:
        return True  # reading it says where
    except Exception as error:  # noqa: BLE001 - a note is made of it
        gaps.append(_failed(document, reader, error))
        return False


def _owns(reader: Reader, document: Document, budget: limits.Budget) -> bool:
    try:
        with budget:
            return isinstance(reader, Owner) and reader.owns(document)
    except limits.TooSlowError:
        return False


def _offered(
    reader: Reader, document: Document, budget: limits.Budget, gaps: list[Gap]
) -> Iterator[Fact]:
    try:
        yield from budget.spread_over(reader.read(document))
    except limits.TooSlowError as error:
        gaps += budget.gaps(document, error)
    except Exception as error:  # noqa: BLE001 - a note is made of it
        gaps.append(_failed(document, reader, error))


def _of_file(document: Document, why: str) -> Gap:
    return Gap(what=f"reading {document.path}", why=why, source=document.source())


def _failed(document: Document, reader: Reader, error: Exception) -> Gap:
    return Gap(
        what=f"reading {document.path} as {reader.name}",
        why=f"the reader failed ({type(error).__name__}: {str(error)[:160]})",
        cost="what it says in that form is not known, or not all of it",
        remedy="Please report this file as a bug of whyhang",
        source=document.source(),
    )


def _settled(facts: Iterable[Fact], gaps: list[Gap]) -> Iterator[Fact]:
    """Yield facts, then the dumps with their looks counted, then the troubles, folded."""
    dumps: list[StackDump] = []
    for fact in facts:
        if isinstance(fact, StackDump):
            dumps.append(fact)
        elif isinstance(fact, Gap) and fact.who == NOBODY:
            gaps.append(fact)
        else:
            yield fact
    yield from _with_looks(_on_hosts(dumps))
    yield from folded(gaps)


def folded(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Tell the first of alike troubles one by one, and the rest by their number."""
    alike: dict[tuple[str, str, str], list[Gap]] = defaultdict(list)
    for gap in dict.fromkeys(gaps):
        alike[gap.why, gap.cost, gap.remedy].append(gap)
    for same in alike.values():
        if len(same) <= SHOWN + 1:
            yield from same
            continue
        yield from same[:SHOWN]
        more = len(same) - SHOWN
        yield replace(same[0], what=f"reading {more:,} more files like these", source=None)


def _on_hosts(dumps: Sequence[StackDump]) -> Iterator[StackDump]:
    """Keep processes of different hosts apart where only their pids are known, and are equal.

    In containers every node has its pid 1. Two dumps with equal pids are of one process if
    their commands and most of their threads are the same.
    """
    first: dict[int, StackDump] = {}
    for dump in dumps:
        who = dump.who
        if who.pid is None or who.host is not None or who.rank is not None:
            yield dump
            continue
        known = first.setdefault(who.pid, dump)
        if known.source.file == dump.source.file or _same_process(known, dump):
            yield dump
        else:
            name = naming.title(dump.source.file) or dump.source.file
            yield replace(dump, who=replace(who, host=name))


def _same_process(one: StackDump, other: StackDump) -> bool:
    if one.command is not None and other.command is not None and one.command != other.command:
        return False
    own = {thread.tid for thread in one.threads if thread.tid != one.who.pid}
    its = {thread.tid for thread in other.threads if thread.tid != other.who.pid}
    return not own or not its or 2 * len(own & its) >= min(len(own), len(its))


def _with_looks(dumps: Iterable[StackDump]) -> Iterator[StackDump]:
    """Count the dumps of each process in the order they were read, which is that of names.

    Dumps by different tools, or with and without native frames, are told apart: they may well
    have been taken of one standstill. What a manifest or a tool counted already stays.
    """
    seen: dict[tuple[object, ...], int] = defaultdict(int)
    for dump in dumps:
        identity = _identity(dump.who)
        if dump.taken_at is not None or dump.look or identity is None:
            yield dump
            continue
        native = any(frame.native for thread in dump.threads for frame in thread.frames[:3])
        key = (*identity, dump.tool, native)
        look = seen[key]
        seen[key] += 1
        yield replace(dump, look=look) if look else dump


def _identity(who: Who) -> tuple[object, ...] | None:
    if who.pid is not None:
        return ("pid", who.host, who.pid, who.rank)
    if who.rank is not None:
        return ("rank", who.rank)
    if who.label is not None:
        return ("label", who.host, who.label)
    return None
