"""Workers on other machines that share the reading, and this process, which puts it together.

Files are listed here, in one order, and handed out in pieces. What each worker found is put
back in that order, so that facts, troubles and the report are those of one machine. A worker
that is gone costs time: what it had is then read here.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from whyhang.analyzer.facts import Fact, Gap, replace
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.folder import Task
from whyhang.collectors.files.listing import Item, Unopened
from whyhang.collectors.files.spool import MIB, Extent
from whyhang.collectors.files.workers import chunked
from whyhang.collectors.shards.channel import Channel, ChannelError

PIECES = 6
"""So many pieces for each worker: one that is slower, or has the larger files, does fewer."""

PIECE_FILES = 2000
AHEAD = 3
"""Chunks that a worker is asked for before the first is used."""


class WorkerTeam(AbstractContextManager["WorkerTeam"]):
    """Reads by several workers; used as ``folder.read(…, team=…)``."""

    def __init__(self, channels: Sequence[Channel], gone: Iterable[int] = ()) -> None:
        """``channels`` lead to workers that were given their places in it as their numbers.

        ``gone`` are those that did not start.
        """
        self._channels = channels
        self._locks = [threading.Lock() for _ in channels]
        self._gone = set(gone)
        self.lost: list[str] = []  # what to tell a person of workers that went away
        self._worker: dict[str, int] = {}  # by the path of a file
        self._origin: dict[str, Unopened] = {}
        self._store: Store | None = None
        self._again: dict[str, dict[str, Item]] = {}
        for number in range(len(channels)):
            spool.holders[number] = lambda extent: _Held(extent, self._ask)

    def __exit__(self, *_: object) -> None:
        spool.holders.clear()
        for channel in self._channels:
            channel.close()

    def expand(self, store: Store, files: Sequence[Unopened]) -> Iterable[Iterable[Item | Gap]]:
        """Look into each of the files."""
        self._store = store
        answers: dict[int, list[Item | Gap]] = {}
        pieces = deque(_pieces(files, PIECES * len(self._channels)))
        threads = [
            threading.Thread(target=self._work_off, args=(number, files, pieces, answers))
            for number in range(len(self._channels))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (
            answers[number] if number in answers else store.expand(file)
            for number, file in enumerate(files)
        )

    def _work_off(
        self,
        worker: int,
        files: Sequence[Unopened],
        pieces: deque[range],
        answers: dict[int, list[Item | Gap]],
    ) -> None:
        while pieces and worker not in self._gone:
            try:
                piece = pieces.popleft()
                sent = [replace(files[n], item=_sent(files[n].item)) for n in piece]
                answer = self._ask(worker, "expand", sent)
            except (IndexError, ChannelError):
                return  # what is left is done by the others, or here
            for number, opened in zip(piece, answer, strict=True):
                file = files[number]
                if opened is None:
                    continue
                items = [replace(file.item, start=opened)] if isinstance(opened, bytes) else opened
                answers[number] = items
                for item in items:
                    if isinstance(item, Item):
                        self._worker[item.path] = worker
                        self._origin[item.path] = file

    def results(
        self, tasks: Sequence[Task], here: Callable[[Task], list[Fact]]
    ) -> Generator[list[Fact], None, None]:
        """Yield what is in each file, in order; ``here`` reads one in this process."""
        places: list[int | None] = [self._worker.get(task.item.path) for task in tasks]
        chunks: dict[int, deque[list[int]]] = {}
        for worker in range(len(self._channels)):
            own = [number for number, place in enumerate(places) if place == worker]
            chunks[worker] = deque(chunked(own, lambda number: tasks[number].item.size))
        pools = [ThreadPoolExecutor(1) for _ in self._channels]
        asked: dict[int, deque[Future[list[list[Fact] | None]]]] = {n: deque() for n in chunks}
        ready: dict[int, deque[list[Fact] | None]] = {n: deque() for n in chunks}

        def ask_ahead(worker: int) -> None:
            while chunks[worker] and len(asked[worker]) < AHEAD:
                chunk = [tasks[number] for number in chunks[worker].popleft()]
                asked[worker].append(pools[worker].submit(self._read, worker, chunk))

        try:
            for worker in chunks:
                ask_ahead(worker)
            for task, place in zip(tasks, places, strict=True):
                if place is None:
                    yield here(task)
                    continue
                if not ready[place]:
                    ready[place].extend(asked[place].popleft().result())
                    ask_ahead(place)
                read = ready[place].popleft()
                if read is None:
                    read = here(replace(task, item=self._item_again(task.item)))
                yield read
        finally:
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, worker: int, tasks: Sequence[Task]) -> list[list[Fact] | None]:
        """Have a worker read files; None for each that is to be read here, in its turn."""
        sent = [replace(task, item=_sent(task.item)) for task in tasks]
        try:
            answer: list[list[Fact] | None] = self._ask(worker, "read", sent)
        except ChannelError:
            return [None] * len(tasks)
        return answer

    def _ask(self, worker: int, operation: str, *arguments: object) -> Any:
        if worker in self._gone:
            raise ChannelError("it is gone")
        try:
            with self._locks[worker]:
                return self._channels[worker].ask(operation, *arguments)
        except ChannelError as error:
            if worker not in self._gone:
                self._gone.add(worker)
                name = self._channels[worker].name
                self.lost.append(f"a worker on {name} is gone ({error}); it is done without")
            raise

    def _item_again(self, item: Item) -> Item:
        """Unpack here what a worker had unpacked that is gone."""
        if not isinstance(item.extent, Extent) or item.extent.holder is None:
            return item
        origin = self._origin[item.path]
        if origin.item.path not in self._again and self._store is not None:
            items = self._store.expand(origin)
            self._again[origin.item.path] = {
                each.path: each for each in items if isinstance(each, Item)
            }
        return self._again[origin.item.path][item.path]


class _Held(io.RawIOBase):
    """A file that a worker has unpacked, read from it in parts."""

    def __init__(self, extent: Extent, ask: Callable[..., Any]) -> None:
        self._extent, self._ask, self._at = extent, ask, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self._at, 2: self._extent.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, target: Any) -> int:
        size = min(len(target), 4 * MIB)
        try:
            data = self._ask(self._extent.holder, "part", self._extent, self._at, size)
        except ChannelError as error:
            raise OSError(f"the worker that has it does not answer ({error})") from error
        target[: len(data)] = data
        self._at += len(data)
        return len(data)


def _sent(item: Item) -> Item:
    """Name a file so that it is found from any working directory."""
    if not isinstance(item.extent, Extent) or item.extent.path is None:
        return item
    return replace(item, extent=replace(item.extent, local=str(Path(item.extent.path).absolute())))


def _pieces(files: Sequence[Unopened], count: int) -> Iterator[range]:
    """Cut the files into about so many pieces of equal size, neighbours together."""
    share = sum(file.item.size for file in files) / max(1, count)
    start, room = 0, share
    for number, file in enumerate(files):
        room -= max(0, file.item.size)
        if room <= 0 or number + 1 - start >= PIECE_FILES:
            yield range(start, number + 1)
            start, room = number + 1, share
    if start < len(files):
        yield range(start, len(files))
