"""Where in a block of bytes any of many patterns may match: the fast part of reading logs.

A ``Searcher`` reports, for each pattern, the places at which a match may end. It may report too
much, never too little: each line found is searched again with the pattern itself. Hyperscan does
it in one pass over the block whatever the number of patterns; without it the standard library
looks for the words that each match must contain, with the same result at a hundredth of the
speed.

Blocks are read and searched in threads, ahead of whoever takes them apart: Hyperscan lets go of
Python's lock while it searches, as reading does, so that on two cores the search of one block runs
beside the work on another. But it takes the lock for every hit; where hits are many the threads
would only wait for each other. Such blocks come back unsearched and are searched by the caller,
and after a few of them the threads are left alone.
"""

import sys
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Protocol

from whyhang.analyzer.facts import Gap
from whyhang.collectors.logs.engine.byte_blocks import Block, Hit
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.engine.pattern import UnsearchableError

try:
    from whyhang.collectors.logs.engine.hyperscan_search import HyperscanSearcher
except ImportError:  # it has no wheel for this machine
    HyperscanSearcher = None  # type: ignore[assignment, misc]


class Searcher(Protocol):
    """Finds many patterns at once.

    ``threaded``: several blocks can be searched side by side. ``unsearchable`` names the patterns
    that are never found, and why.
    """

    threaded: bool
    unsearchable: list[tuple[str, str]]

    def search(self, block: Block, most: int = sys.maxsize) -> list[Hit] | None:
        """Return the hits in the lines of a block, in no order; None for more than ``most``."""

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Search for one pattern more exactly, if that can be done (else None)."""


def searcher(
    patterns: Sequence[str], *, once: Collection[str] = (), engine: str = "auto"
) -> tuple[Searcher, tuple[Gap, ...]]:
    """Return a searcher for patterns, and what it cannot do.

    Of the patterns in ``once``, which may stand in a third of all lines, one hit is reported per
    block. ``engine`` is "auto", or "words" to do without Hyperscan.
    """
    fast = engine != "words" and HyperscanSearcher is not None
    made: Searcher = (HyperscanSearcher if fast else WordSearcher)(patterns, once)
    slow = (_SLOW,) if engine != "words" and not fast else ()
    return made, (*slow, *(_gap_of(pattern, why) for pattern, why in made.unsearchable))


_SLOW = Gap(
    what="Searching logs with Hyperscan",
    why="the package hyperscan is not installed or does not load here",
    cost="big logs take up to a hundred times as long, with the same result",
    remedy="pip install hyperscan",
)


def _gap_of(pattern: str, why: str) -> Gap:
    return Gap(
        what=f"Searching logs for the pattern {pattern!r}",
        why=why,
        cost="lines that it describes are not found",
        remedy="give it a literal word of three or more letters",
    )


class WordSearcher:
    """Searches with the standard library for words that matches must contain."""

    threaded = False

    def __init__(self, patterns: Sequence[str], once: Collection[str] = ()) -> None:
        self.unsearchable: list[tuple[str, str]] = []
        self._once = {number for number, pattern in enumerate(patterns) if pattern in once}
        self._numbers: dict[bytes, list[int]] = {}  # of the patterns with a word
        self._caseless: dict[bytes, list[int]] = {}
        for number, pattern in enumerate(patterns):
            try:
                needle = needle_of(pattern)
            except UnsearchableError as error:
                self.unsearchable.append((pattern, str(error)))
                continue
            words = self._caseless if needle.caseless else self._numbers
            for word in needle.words or (b"\n",):  # without a word every line is tried
                words.setdefault(word.lower() if needle.caseless else word, []).append(number)

    def search(self, block: Block, most: int = sys.maxsize) -> list[Hit] | None:
        """Look for each word in turn: many quick passes over a block that stays in the cache."""
        data = bytes(block.data[block.start : block.stop]) + b"\n"
        hits = list(self._find(data, self._numbers))
        if self._caseless:
            hits += self._find(data.lower(), self._caseless)
        return hits if len(hits) <= most else None

    def _find(self, data: bytes, words: dict[bytes, list[int]]) -> Iterator[Hit]:
        for word, numbers in words.items():
            at = data.find(word)
            first = at
            while at >= 0:
                for number in numbers:
                    if at == first or number not in self._once:
                        yield at + len(word), number
                at = data.find(word, at + 1)

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Words cannot be looked for more exactly."""
        return None


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
        part = Future[Block]()
        try:
            part.set_result(next(rest))
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001 - whatever a decompressor raises
            part.set_exception(error)
            rest = iter(())
        yield part.result


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
        yield block, searcher.search(block) or []


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
                hits = searcher.search(block) or []
            yield block, hits


def _search(searcher: Searcher, part: Part) -> tuple[Block, list[Hit] | None]:
    """Search a block in a thread, and look at what else whoever takes it needs."""
    block = part()
    block.survey()
    return block, searcher.search(block, MAX_HITS)
