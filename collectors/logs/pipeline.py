"""Reads and searches the blocks of one file in threads, ahead of whoever takes them apart.

Hyperscan lets go of Python's lock while it searches, as reading does, so that on two cores the
search of one block runs beside the work on another. But it takes the lock for every hit; where
hits are many the threads would only wait for each other. Such blocks come back unsearched and
are searched by the caller, and after a few of them the threads are left alone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.search import Hit, Searcher

MAX_HITS = 256  # of one block in a thread
MAX_BUSY = 4  # blocks with more, after which threads are given up
MAX_THREADS = 4

Part = Callable[[], Block]
"""Gives one block of a file: one that is at hand, or one that is read when it is called."""


def at_hand(blocks: Iterable[Block]) -> Iterator[Part]:
    """Make parts of blocks that only come one after the other."""
    for block in blocks:
        yield lambda block=block: block  # type: ignore[misc]  # its own block, not the last


class _Source:
    """Gives parts, and keeps a failure until all blocks before it have been searched."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self.failure: Exception | None = None

    def take(self) -> Part | None:
        """Give the next part; None at the end, or where reading failed."""
        try:
            return next(self._parts, None)
        except Exception as error:  # noqa: BLE001 - raised again when all else is done
            self.failure = error
            return None

    def rest(self) -> Iterator[Part]:
        """Give all further parts."""
        while (part := self.take()) is not None:
            yield part


def searched(
    parts: Iterable[Part], searcher: Searcher, threads: int | None = None
) -> Generator[tuple[Block, list[Hit]], None, None]:
    """Give each block with what was found in it, in order.

    Raises what reading them raises, after all those before have been given.
    """
    source = _Source(parts)
    first = source.take()
    second = source.take() if first is not None else None
    begun = [part for part in (first, second) if part is not None]
    if threads is None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
    if second is not None and threads > 1 and searcher.threaded:
        yield from _ahead(begun, source, searcher, threads)
        begun = []
    for part in (*begun, *source.rest()):
        block = part()
        yield block, searcher.search(block)
    if source.failure is not None:
        raise source.failure


def _ahead(
    begun: list[Part], source: _Source, searcher: Searcher, threads: int
) -> Iterator[tuple[Block, list[Hit]]]:
    """Search in threads until there is no more, or hits are too many for that."""
    busy = 0
    waiting: deque[Future[tuple[Block, list[Hit] | None]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="whyhang-log") as pool:
        for part in begun:
            waiting.append(pool.submit(_search, searcher, part))
        while waiting:
            while len(waiting) <= threads and busy < MAX_BUSY:
                following = source.take()
                if following is None:
                    break
                waiting.append(pool.submit(_search, searcher, following))
            block, found = waiting.popleft().result()
            if found is None:
                busy += 1
                found = searcher.search(block)
            yield block, found


def _search(searcher: Searcher, part: Part) -> tuple[Block, list[Hit] | None]:
    """Search a block in a thread, and look at what else whoever takes it needs."""
    block = part()
    block.survey()
    return block, searcher.search_some(block, MAX_HITS)
