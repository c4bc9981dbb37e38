"""Reads and searches the blocks of one file in threads, ahead of whoever takes them apart.

Hyperscan lets go of Python's lock while it searches, as reading does, so that on two cores the
search of one block runs beside the work on another. But it takes the lock for every hit; where
hits are many the threads would only wait for each other. Such blocks come back unsearched and
are searched by the caller, and after a few of them the threads are left alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice

from whyhang.collectors.logs.engine.blocks import Block, Hit
from whyhang.collectors.logs.engine.search import Searcher

MAX_HITS = 256  # of one block in a thread
MAX_BUSY = 4  # blocks with more, after which threads are given up

Part = Callable[[], Block]
"""Gives one block of a file: one that is at hand, or one that is read when it is called."""


def at_hand(blocks: Iterable[Block]) -> Iterator[Part]:
    """Yield parts of blocks that only come one after the other.

    What reading them raises is raised by the part in whose place no block came.
    """
    rest = iter(blocks)
    while True:
        try:
            block = next(rest)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - whatever a decompressor raises
            yield _failing(error)
            return
        yield lambda block=block: block  # type: ignore[misc]  # its own block, not the last


def _failing(error: Exception) -> Part:
    def part() -> Block:
        raise error

    return part


def searched(
    parts: Iterable[Part], searcher: Searcher, threads: int
) -> Generator[tuple[Block, list[Hit]], None, None]:
    """Yield each block with its hits, in order. Raises what a part raises when its turn comes."""
    rest = iter(parts)
    first = list(islice(rest, 2))
    rest = chain(first, rest)
    if len(first) > 1 and threads > 1:
        yield from _ahead(rest, searcher, threads)
    for part in rest:
        block = part()
        yield block, searcher.search(block)


def _ahead(
    parts: Iterator[Part], searcher: Searcher, threads: int
) -> Iterator[tuple[Block, list[Hit]]]:
    """Search in threads until there is no more, or hits are too many for that."""
    busy = 0
    waiting: deque[Future[tuple[Block, list[Hit] | None]]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="whyhang-log") as pool:
        while True:
            free = threads + 1 - len(waiting) if busy < MAX_BUSY else 0
            waiting += [pool.submit(_search, searcher, part) for part in islice(parts, free)]
            if not waiting:
                return
            block, hits = waiting.popleft().result()
            if hits is None:
                busy += 1
                hits = searcher.search(block)
            yield block, hits


def _search(searcher: Searcher, part: Part) -> tuple[Block, list[Hit] | None]:
    """Search a block in a thread, and look at what else whoever takes it needs."""
    block = part()
    block.survey()
    return block, searcher.search_some(block, MAX_HITS)
