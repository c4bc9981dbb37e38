"""The patterns of a run, and lines searched with them: each pattern for a limited time.

``regex`` gives a search up after a time, which nested repeats such as ``(a+)+$`` need on a
long line. A pattern of whyhang's own is then not used for the rest of that file; one from a
user's card for the rest of the run: it would be as slow in the next ten thousand files.

Of very many hits some are looked at. A thousand ranks that say the same are a thousand facts, one
that says it over and over is one: of a pattern that is found everywhere, what each speaker says
first and last is looked at, and the rest is counted. Who speaks is told cheaply from the beginning
of a line. ``line.py`` knows who it really is; here it is enough that lines of two processes differ,
and that those of one mostly do not.
"""

import functools
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import regex

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document
from whyhang.collectors.logs.engine.byte_blocks import LONGEST, Block, Hit
from whyhang.collectors.logs.engine.needle import needle_of
from whyhang.collectors.logs.engine.search import Searcher
from whyhang.collectors.logs.text.line import clean

SECONDS = 0.2  # that one pattern may take for one line
ALL_SECONDS = 2.0  # that one pattern of a card may take for all lines, of the processor's time

Match = regex.Match[str]


class Patterns:
    """All patterns of a run by number; those in ``outside`` are signatures'.

    ``owners`` gives the card of a pattern that is a user's.
    """

    def __init__(
        self, outside: Collection[str], own: Collection[str], owners: Mapping[str, str]
    ) -> None:
        self.texts = sorted({*outside, *own})
        self.outside = frozenset(outside)
        self.owners = owners
        self.ended: set[str] = set()  # those of users that were given up
        self.spent: defaultdict[str, float] = defaultdict(float)  # by those of users
        self.tried: Counter[str] = Counter()


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern, once for all runs of a process; ``regex`` itself remembers only 500."""
    return regex.compile(pattern, cache_pattern=False)


class Matching:
    """Searches the lines of one file. ``gaps`` says which patterns were given up."""

    def __init__(self, patterns: Patterns, document: Document) -> None:
        self.patterns = patterns
        self.gaps: dict[str, Gap] = {}
        self._document = document

    def search(self, number: int, text: str, line: Callable[[], int]) -> Match | None:
        """Search a text with a pattern; ``line`` is asked for its number if that must be told."""
        pattern = self.patterns.texts[number]
        if pattern in self.gaps or pattern in self.patterns.ended:
            return None
        card = self.patterns.owners.get(pattern)
        why, remedy = "", ""
        begun = time.thread_time() if card else 0.0
        try:
            if self.patterns.spent[pattern] <= ALL_SECONDS:
                return _compiled(pattern).search(text, concurrent=False, timeout=SECONDS)
            tried = self.patterns.tried[pattern]
            why = f"it took {ALL_SECONDS:g} s for {tried:,} lines and was given up"
            remedy = "give it a word that stands in fewer lines"
        except regex.error:
            why = "it is not a valid regular expression"
        except TimeoutError:
            why = f"it took longer than {SECONDS} s for one line and was given up"
            remedy = "avoid a repeat within a repeat such as (a+)+ in it"
        finally:
            if card:
                self.patterns.tried[pattern] += 1
                self.patterns.spent[pattern] += time.thread_time() - begun
        self.gaps[pattern] = self._document.gap(
            f"{why} at line {(at := line())}",
            what=f"Searching {self._document.path} for the pattern {pattern!r}"
            + (f" of the card {card}" if card else ""),
            cost="lines that it describes are not found"
            + (" from there on, in no file" if card else " in that file"),
            remedy=remedy,
            line=at,
        )
        if card:
            self.patterns.ended.add(pattern)
        return None


STORM = 4096  # hits of one pattern in one file, after which only some are looked at
FIRST_OF_EACH = 8  # of those, the first of each speaker; beside them its last of each block
MAX_CHOSEN = 50_000  # lines chosen so; after them
FIRST, LAST = 32, 8  # the first and last of each block


class Storms:
    """Chooses among the hits in one file. ``passed_over`` counts, by pattern, what is left out."""

    def __init__(self, matching: Matching, searcher: Searcher) -> None:
        self.passed_over: Counter[str] = Counter()
        self.hits: Counter[int] = Counter()
        self._matching = matching
        self._searcher = searcher
        self._hits_by_speaker: Counter[tuple[int, bytes]] = Counter()  # hits by pattern and speaker
        self._chosen: Counter[int] = Counter()

    def choose(self, block: Block, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits in a block that are to be looked at, in order."""
        counts = Counter(number for _, number in hits)
        self.hits.update(counts)
        storms = {n for n, few in counts.items() if few > FIRST + LAST and self.hits[n] > STORM}
        chosen = [hit for hit in hits if hit[1] not in storms]
        for number in storms:
            alike = self._matches(block, number, [hit for hit in hits if hit[1] == number])
            some = self._some(block, number, alike)
            self.passed_over[self._matching.patterns.texts[number]] += len(alike) - len(some)
            chosen += some
        return sorted(chosen)

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
            self._hits_by_speaker[number, who] += 1
            if self._hits_by_speaker[number, who] <= FIRST_OF_EACH:
                chosen.add(hit)
            last[who] = hit
        chosen.update(last.values())
        self._chosen[number] += len(chosen)
        return list(chosen)


REACH = 400  # bytes before a place in which its line begins
BEGINNING = 96  # bytes of a line in which the speaker is named
WORDS = 2  # that name the speaker

_TIME = re.compile(rb"\d\d:\d\d:\d\d|\d{4}[-/]\d\d[-/]\d\d|^[\d.,]+s?$")


def speaker(data: bytes | bytearray, at: int) -> bytes:
    """Return the first words of the line around a place, but for dates and times."""
    start = data.rfind(b"\n", max(0, at - REACH), at) + 1 or max(0, at - REACH)
    words = bytes(data[start : max(at, start + BEGINNING)][:BEGINNING]).split(None, WORDS + 3)
    return b" ".join([word for word in words if not _TIME.search(word)][:WORDS])


def last_of_each(block: Block, word: bytes, most: int) -> tuple[list[int], int]:
    """Return where the last line of each speaker that holds a word has it, and how many were seen.

    At most ``most`` places are looked at, half of them from each end of the block.
    """
    places = _at_both_ends(block.data, word, block.start, block.stop, most)
    last = {speaker(block.data, at): at for at in places}
    return sorted(last.values()), len(places)


def _at_both_ends(
    data: bytes | bytearray, word: bytes, start: int, stop: int, most: int
) -> list[int]:
    """Return the first and the last places of a word, up to half of ``most`` each, in order."""
    first: list[int] = []
    at = start - 1
    while len(first) < most - most // 2 and (at := data.find(word, at + 1, stop)) >= 0:
        first.append(at)
    behind: list[int] = []
    while at >= 0 and len(behind) < most // 2 and (stop := data.rfind(word, at + 1, stop)) >= 0:
        behind.append(stop)
    return first + behind[::-1]
