"""Searches the blocks of one file in threads, some blocks ahead of whoever takes them apart.

Hyperscan lets go of Python's lock while it searches, so that on two cores the search of one
block runs beside the work on another. But it takes the lock for every hit; where hits are many
the threads would only wait for each other. Such blocks come back unsearched and are searched
by the caller, and after a few of them the threads are left alone.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.search import Searched, Searcher

MAX_HITS = 256  # of one block in a thread
MAX_BUSY = 4  # blocks with more, after which threads are given up
MAX_THREADS = 4


class _Source:
    """Gives blocks, and keeps a failure until all blocks before it have been searched."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = iter(blocks)
        self.failure: Exception | None = None

    def take(self) -> Block | None:
        """Give the next block; None at the end, or where reading failed."""
        try:
            return next(self._blocks, None)
        except Exception as error:  # noqa: BLE001 - raised again when all else is done
            self.failure = error
            return None

    def rest(self) -> Iterator[Block]:
        """Give all further blocks."""
        while (block := self.take()) is not None:
            yield block


def searched(
    blocks: Iterable[Block], searcher: Searcher, threads: int | None = None
) -> Iterator[tuple[Block, Searched]]:
    """Give each block with what was found in it, in order.

    Raises what the blocks raise, after all those before have been given.
    """
    source = _Source(blocks)
    first = source.take()
    second = source.take() if first is not None else None
    begun = [block for block in (first, second) if block is not None]
    if threads is None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
    if second is not None and threads > 1 and searcher.threaded:
        yield from _ahead(begun, source, searcher, threads)
    else:
        for block in begun:
            yield block, searcher.search(block)
    for block in source.rest():
        yield block, searcher.search(block)
    if source.failure is not None:
        raise source.failure


def _ahead(
    begun: list[Block], source: _Source, searcher: Searcher, threads: int
) -> Iterator[tuple[Block, Searched]]:
    """Search in threads until there is no more, or hits are too many for that."""
    busy = 0
    waiting: deque[tuple[Block, Future[Searched | None]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="whyhang-log") as pool:

        def submit(block: Block) -> None:
            waiting.append((block, pool.submit(_search, searcher, block)))

        for block in begun:
            submit(block)
        while waiting:
            while len(waiting) <= threads and busy < MAX_BUSY:
                following = source.take()
                if following is None:
                    break
                submit(following)
            block, future = waiting.popleft()
            found = future.result()
            if found is None:
                busy += 1
                found = searcher.search(block)
            yield block, found


def _search(searcher: Searcher, block: Block) -> Searched | None:
    """Search a block in a thread, and count its lines, which whoever takes it needs."""
    block.count()
    return searcher.search_some(block, MAX_HITS)
