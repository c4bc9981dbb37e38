"""The search for many patterns with the standard library, where Hyperscan is not installed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from whyhang.collectors.logs.engine.block import Block, Hit
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.engine.pattern import UnsearchableError


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

    def search(self, block: Block) -> list[Hit]:
        """Look for each word in turn: many quick passes over a block that stays in the cache."""
        data = bytes(block.data[block.start : block.stop]) + b"\n"
        hits = list(self._find(data, self._numbers))
        if self._caseless:
            hits += self._find(data.lower(), self._caseless)
        return hits

    def _find(self, data: bytes, words: dict[bytes, list[int]]) -> Iterator[Hit]:
        for word, numbers in words.items():
            at = data.find(word)
            first = at
            while at >= 0:
                for number in numbers:
                    if at == first or number not in self._once:
                        yield at + len(word), number
                at = data.find(word, at + 1)

    def search_some(self, block: Block, most: int) -> list[Hit] | None:
        """Search a block, but give up at more than ``most`` hits."""
        hits = self.search(block)
        return hits if len(hits) <= most else None

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Words cannot be looked for more exactly."""
        return None

    def forget(self, number: int) -> None:
        """Look for one pattern no longer."""
        for numbers in (*self._numbers.values(), *self._caseless.values()):
            if number in numbers:
                numbers.remove(number)
