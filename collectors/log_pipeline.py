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
from itertools import chain

from whyhang.collectors.log_blocks import Block
from whyhang.collectors.log_search import Searched, Searcher

MAX_HITS = 256  # of one block in a thread
MAX_BUSY = 4  # blocks with more, after which threads are given up
MAX_THREADS = 4


def searched(
    blocks: Iterable[Block], searcher: Searcher, threads: int | None = None
) -> Iterator[tuple[Block, Searched]]:
    """Give each block with what was found in it, in order."""
    if threads is None:
        threads = min(MAX_THREADS, os.cpu_count() or 1)
    stream = iter(blocks)
    first = next(stream, None)
    if first is None:
        return
    second = next(stream, None)
    if second is None or threads < 2 or not searcher.threaded:
        for block in chain((first,), () if second is None else (second,), stream):
            yield block, searcher.search(block)
        return
    yield from _ahead([first, second], stream, searcher, threads)


def _ahead(
    begun: list[Block], stream: Iterator[Block], searcher: Searcher, threads: int
) -> Iterator[tuple[Block, Searched]]:
    busy = 0
    waiting: deque[tuple[Block, Future[Searched | None]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="whyhang-log") as pool:

        def submit(block: Block) -> None:
            waiting.append((block, pool.submit(searcher.search_some, block, MAX_HITS)))

        for block in begun:
            submit(block)
        while waiting:
            while len(waiting) <= threads and busy < MAX_BUSY:
                following = next(stream, None)
                if following is None:
                    break
                submit(following)
            block, future = waiting.popleft()
            found = future.result()
            if found is None:
                busy += 1
                found = searcher.search(block)
            yield block, found
    for block in stream:
        yield block, searcher.search(block)
