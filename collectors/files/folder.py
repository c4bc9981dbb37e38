"""Read whatever people hand in: each file is offered to every reader that knows its form.

The one way in for files, and for what was just taken of a live job: both are documents. A
thousand alike troubles are told once.
"""

import functools
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path, PurePosixPath
from typing import Protocol, runtime_checkable

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import NOBODY, Fact, Gap, Record, StackDump, Who, grouped, replace
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files import bundle, naming, snapshots, workers
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.listing import Item, Unopened, clean, gap
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.files.offer import facts_of_document
from whyhang.collectors.files.remote import RemoteFile

SHOWN = 3  # of alike troubles, so many are named
EVERY = 200  # files between two words on progress
SHARED_FROM, SHARED_TO = 512, 128 << 20  # bytes of a file that one of several processes reads


class Task(Record):
    """A file to read: whose it is by its name and its neighbours', and by the manifest."""

    item: Item
    who: Who
    entry: bundle.Entry | None


class Team(Protocol):
    """Others that look into files and read them, in place of this process."""

    def expand(self, store: Store, files: Sequence[Unopened]) -> Iterable[Iterable[Item | Gap]]:
        """Look into each of the files; ``store`` serves for what is done here."""

    def results(
        self, tasks: Sequence[Task], here: Callable[[Task], list[Fact]]
    ) -> Generator[list[Fact], None, None]:
        """Yield what is in each file, in order; ``here`` reads one in this process."""


@runtime_checkable
class Loading(Protocol):
    """A reader with much to load, which is done once: before there are several processes."""

    def ready(self) -> None:
        """Load it."""


class ThisMachine:
    """The team of those who name no other: as many processes as are worth it."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = readers

    def expand(self, store: Store, files: Sequence[Unopened]) -> Iterable[Iterable[Item | Gap]]:
        """Look into each of the files, when it is its turn."""
        return map(store.expand, files)

    def results(
        self, tasks: Sequence[Task], here: Callable[[Task], list[Fact]]
    ) -> Generator[list[Fact], None, None]:
        """Yield what is in each file, in order.

        One that lies elsewhere is read here, as a connection cannot be shared with processes that
        are forked, and so is one that is soon read, or that threads share.
        """
        shared = [
            number
            for number, task in enumerate(tasks)
            if SHARED_FROM <= task.item.size <= SHARED_TO
            and not isinstance(task.item.extent, RemoteFile)
        ]
        chunks = workers.chunked(shared, lambda number: tasks[number].item.size)
        count = workers.worth_it(len(chunks))
        if count < 2:
            yield from map(here, tasks)
            return
        load(self._readers)
        by_others = set(shared)
        with closing(workers.in_order(lambda n: here(tasks[n]), chunks, count)) as results:
            for number, task in enumerate(tasks):
                yield next(results) if number in by_others else here(task)


def load(readers: Iterable[Reader]) -> None:
    """Have readers load what they need."""
    for reader in readers:
        if isinstance(reader, Loading):
            reader.ready()


def read(
    paths: Sequence[str | Path],
    *,
    readers: Sequence[Reader],
    progress: Callable[[str], None] = lambda _: None,
    store: Store | None = None,
    meter: Meter | None = None,
    team: Team | None = None,
) -> Iterator[Fact]:
    """Yield what files, folders and archives say. Troubles become gaps, never exceptions.

    ``progress`` is told now and then, in words, how far the reading is, and ``meter`` all the
    time, in bytes. ``store`` holds what archives were unpacked to, so that facts with more
    behind them can be asked for it later; without one that ends with the reading. ``team`` reads
    in place of this process.
    """
    gaps: list[Gap] = []
    with Store() if store is None else nullcontext(store) as opened:
        opened.meter = meter or Meter()
        items: list[Item] = []
        if team is None:
            team = ThisMachine(readers)
        else:
            load(readers)  # what is left to this process has its own time
        names = _shown(paths)
        listed = [list(opened.listed(*named)) for named in zip(paths, names, strict=True)]
        unopened = [file for target in listed for file in target if isinstance(file, Unopened)]
        expanded = iter(team.expand(opened, unopened))
        for path, shown, target in zip(paths, names, listed, strict=True):
            files = [
                item
                for file in target
                for item in (next(expanded) if isinstance(file, Unopened) else (file,))
            ]
            items += (file for file in files if isinstance(file, Item))
            gaps += (file for file in files if isinstance(file, Gap))
            if not files:
                what = f"reading {shown or clean(str(path))}"
                gaps.append(Gap(what=what, why="no file is in it"))
            progress(f"found {len(items):,} files")
        opened.files.update((item.path, item.extent) for item in items)
        opened.meter.start("reading", sum(item.size for item in items), files=len(items))
        facts = _facts_of_all(opened, items, readers, gaps, progress, team)
        yield from _settled(facts, gaps)
        opened.meter.stop()


def read_documents(documents: Iterable[Document], *, readers: Sequence[Reader]) -> Iterator[Fact]:
    """Yield what documents say that are at hand already, as those of a live job are."""
    facts = (fact for document in documents for fact in facts_of_document(document, readers))
    yield from _settled(facts, [])


def _shown(paths: Sequence[str | Path]) -> list[str | None]:
    """Give each of several targets the shortest tail of its path that no other has."""
    if len(paths) < 2:
        return [None] * len(paths)
    parts = [PurePosixPath(Path(path).absolute()).parts for path in paths]
    tails = Counter(own[-length:] for own in parts for length in range(1, len(own)))
    return [clean(_tail(own, tails)) for own in parts]


def _tail(own: tuple[str, ...], tails: Mapping[tuple[str, ...], int]) -> str:
    for length in range(1, len(own)):
        tail = own[-length:]
        if tails[tail] == 1:
            return "/".join(tail)
    return "/".join(own).replace("//", "/")


def _manifests(
    store: Store, items: Sequence[Item], gaps: list[Gap]
) -> Iterator[tuple[str, bundle.Manifest]]:
    """Yield the manifests of bundles with their paths; ``gaps`` takes why some cannot be read."""
    for item in items:
        if PurePosixPath(item.path).name != bundle.MANIFEST:
            continue
        cost = "the files beside it are read for themselves"
        try:
            document = store.document(item)
            if isinstance(document, Document) and bundle.is_manifest(item.path, document.head):
                yield item.path, bundle.read_manifest(document.content())
        except BundleError as error:
            remedy = error.remedy.rstrip(".")
            gaps.append(gap(item.path, error.message, cost=cost, remedy=remedy))
        except OSError as error:
            gaps.append(gap(item.path, str(error), cost=cost))


def _facts_of_all(
    store: Store,
    items: Sequence[Item],
    readers: Sequence[Reader],
    gaps: list[Gap],
    progress: Callable[[str], None],
    team: Team,
) -> Iterator[Fact]:
    manifests = dict(_manifests(store, items, gaps))
    entries = {  # what a manifest says of a file counts for more than its name
        path.removesuffix(bundle.MANIFEST) + entry.path: entry
        for path, manifest in manifests.items()
        for entry in manifest.files
    }
    places = {path: place for place, path in enumerate(entries)}  # as a live run reads them
    files = [item for item in items if item.path not in manifests]
    files.sort(key=lambda item: places.get(item.path, -1))
    owners = naming.together([item.path for item in files])
    tasks = [
        Task(item=item, who=who, entry=entries.get(item.path))
        for item, who in zip(files, owners, strict=True)
    ]
    here = functools.partial(facts_of, store, readers)
    with closing(team.results(tasks, here)) as results:
        done = 0
        for number, task in enumerate(tasks):
            store.meter.at(done, task.item.path, file=number + 1)
            done += task.item.size
            if number % EVERY == 0:
                progress(f"reading {number:,} of {len(files):,} files: {task.item.path}")
            yield from next(results)


def facts_of(store: Store, readers: Sequence[Reader], task: Task) -> list[Fact]:
    """Read one file."""
    document = store.document(task.item, task.who)
    if isinstance(document, Gap):
        return [document]
    if (entry := task.entry) is not None:
        document = replace(document, who=entry.who(), look=entry.look, taken_at=entry.taken_at)
    return facts_of_document(document, readers)


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
    yield from snapshots.counted(dumps)
    yield from _folded(gaps)


def _folded(gaps: Iterable[Gap]) -> Iterator[Gap]:
    """Tell the first of alike troubles one by one, and the rest by their number."""
    alike = grouped(dict.fromkeys(gaps), lambda gap: (gap.why, gap.cost, gap.remedy))
    for same in alike.values():
        shown = same if len(same) <= SHOWN + 1 else same[:SHOWN]
        yield from shown
        if more := len(same) - len(shown):
            yield replace(same[0], what=f"reading {more:,} more files like these", source=None)
