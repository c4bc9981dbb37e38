"""Which of very many hits are looked at.

A thousand ranks that say the same are a thousand facts, one that says it over and over is one: of
a pattern that is found everywhere, what each speaker says first and last is looked at, and the
rest is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from whyhang.analyzer import lazy_re
from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.line import clean
from whyhang.collectors.logs.matching import Matching
from whyhang.collectors.logs.needle import needle_of
from whyhang.collectors.logs.search import Hit, Searcher

LONGEST = 16 << 10  # bytes of a line that are looked at, around what was found
STORM = 4096  # hits of one pattern in one file, after which only some are looked at
SPOKEN = 8  # of those, the first of each speaker; beside them its last of each block
MAX_CHOSEN = 50_000  # lines chosen so; after them
FIRST, LAST = 32, 8  # the first and last of each block
SAMPLED = 16384  # hits of a sampled pattern in one file among which each speaker's last is found
SAMPLE = 2  # hits of it in each block after that
REACH = 400  # bytes before a place in which its line begins
BEGINNING = 96  # bytes of a line in which the speaker is named
WORDS = 2  # that name the speaker

_TIME = lazy_re.compile(rb"\d\d:\d\d:\d\d|\d{4}[-/]\d\d[-/]\d\d|^[\d.,]+s?$")


class Storms:
    """Chooses among the hits in one file. ``passed_over`` counts, by pattern, what is left out.

    ``sampled`` are the patterns reported once a block. ``alone``: one rank wrote the whole file.
    """

    def __init__(
        self, matching: Matching, searcher: Searcher, sampled: Collection[str], *, alone: bool
    ) -> None:
        self.passed_over: Counter[str] = Counter()
        self.hits: Counter[int] = Counter()
        self._matching = matching
        self._searcher = searcher
        self._sampled = sampled
        self._alone = alone
        self._looked_at: Counter[int] = Counter()  # hits of sampled patterns
        self._spoken: Counter[tuple[int, bytes]] = Counter()  # hits by pattern and speaker
        self._chosen: Counter[int] = Counter()

    def choose(self, block: Block, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits in a block that are to be looked at, in order."""
        texts = self._matching.patterns.texts
        sampled = {number for _, number in hits if texts[number] in self._sampled}
        chosen = [hit for hit in hits if hit[1] not in sampled]
        for number in sampled:
            chosen += self._last_of_each(block, number)
        counts = Counter(number for _, number in chosen)
        self.hits.update(counts)
        storms = {n for n, few in counts.items() if few > FIRST + LAST and self.hits[n] > STORM}
        for number in storms:
            alike = [hit for hit in chosen if hit[1] == number]
            matching = self._matches(block, number, alike)
            some = self._some(block, number, matching)
            self.passed_over[texts[number]] += len(matching) - len(some)
            chosen = [hit for hit in chosen if hit[1] != number] + some
        return sorted(chosen)

    def _last_of_each(self, block: Block, number: int) -> list[Hit]:
        """Find what each speaker says last, at both ends of a block."""
        most = SAMPLE if self._alone else max(SAMPLE, SAMPLED - self._looked_at[number])
        words = needle_of(self._matching.patterns.texts[number]).words
        hits, looked_at = last_of_each(block, words, most)
        self._looked_at[number] += looked_at
        return [(end, number) for end in hits]

    def _matches(self, block: Block, number: int, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of a pattern whose lines it matches, not only its word."""
        exact = self._searcher.exact(block, number)
        if exact is not None and needle_of(self._matching.patterns.texts[number]).whole:
            return sorted(exact)
        matching = []
        for hit in sorted(hits if exact is None else exact):
            start, end = block.segment(block.start + hit[0] - 1, LONGEST)
            text = clean(bytes(block.data[start:end]))
            if self._matching.search(number, text, lambda at=start: block.line_at(at)):  # type: ignore[misc]
                matching.append(hit)
        return matching

    def _some(self, block: Block, number: int, hits: list[Hit]) -> list[Hit]:
        """Choose what each speaker says first and last; of too many, the first and last few."""
        if self._chosen[number] >= MAX_CHOSEN:
            return hits if len(hits) <= FIRST + LAST else hits[:FIRST] + hits[-LAST:]
        last: dict[bytes, Hit] = {}
        chosen: set[Hit] = set()
        for hit in hits:
            who = speaker(block.data, block.start + hit[0] - 1)
            self._spoken[number, who] += 1
            if self._spoken[number, who] <= SPOKEN:
                chosen.add(hit)
            last[who] = hit
        chosen.update(last.values())
        self._chosen[number] += len(chosen)
        return list(chosen)


def last_of_each(block: Block, words: Collection[bytes], most: int) -> tuple[list[int], int]:
    """Return where the last line of each speaker that holds a word has it, and how many were seen.

    At most ``most`` places of each word are looked at, half of them from each end of the block.
    """
    data = block.data
    last: dict[bytes, int] = {}
    seen = 0
    for word in words:
        places = _places_at_both_ends(data, word, block.start, block.stop, most)
        for at in places:
            last[speaker(data, at)] = at + len(word)
        seen += len(places)
    return [end - block.start for end in last.values()], seen


def _places_at_both_ends(
    data: bytes | bytearray, word: bytes, start: int, stop: int, most: int
) -> list[int]:
    """Find the first and the last places of a word, up to half of ``most`` each, in order."""
    first: list[int] = []
    at = start - 1
    while len(first) < most - most // 2 and (at := data.find(word, at + 1, stop)) >= 0:
        first.append(at)
    behind: list[int] = []
    while at >= 0 and len(behind) < most // 2 and (stop := data.rfind(word, at + 1, stop)) >= 0:
        behind.append(stop)
    return first + behind[::-1]


def speaker(data: bytes | bytearray, at: int) -> bytes:
    """Return the first words of the line around a place, but for dates and times.

    ``line.py`` knows who it really is. Here it is enough that lines of two processes differ, and
    that those of one mostly do not.
    """
    start = data.rfind(b"\n", max(0, at - REACH), at) + 1 or max(0, at - REACH)
    words = bytes(data[start : max(at, start + BEGINNING)][:BEGINNING]).split(None, WORDS + 3)
    return b" ".join([word for word in words if not _TIME.search(word)][:WORDS])
