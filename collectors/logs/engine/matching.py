"""The patterns of a run, and lines searched with them: each pattern for a limited time.

``regex`` gives a search up after a time, which nested repeats such as ``(a+)+$`` need on a
long line. A pattern of whyhang's own is then not used for the rest of that file; one from a
user's card for the rest of the run: it would be as slow in the next ten thousand files.
"""

import functools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping

import regex

from whyhang.analyzer.facts import Gap
from whyhang.analyzer.reading import Document

SECONDS = 0.2  # that one pattern may take for one line
ALL_SECONDS = 2.0  # that one pattern of a card may take for all lines, of the processor's time

Match = regex.Match[str]


class GivenUpError(Exception):
    """A pattern cannot be used, or no longer."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


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
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tried: Counter[str] = Counter()

    def search(self, pattern: str, text: str) -> Match | None:
        """Search one text. Raises ``GivenUpError``."""
        if pattern not in self.owners:
            return self._search(pattern, text)
        if self._spent[pattern] > ALL_SECONDS:
            raise GivenUpError(
                f"it took {ALL_SECONDS:g} s for {self._tried[pattern]:,} lines and was given up",
                "give it a word that stands in fewer lines",
            )
        begun = time.thread_time()
        try:
            return self._search(pattern, text)
        finally:
            self._tried[pattern] += 1
            self._spent[pattern] += time.thread_time() - begun

    def _search(self, pattern: str, text: str) -> Match | None:
        try:
            return _compiled(pattern).search(text, concurrent=False, timeout=SECONDS)
        except regex.error:
            raise GivenUpError("it is not a valid regular expression", "") from None
        except TimeoutError:
            raise GivenUpError(
                f"it took longer than {SECONDS} s for one line and was given up",
                "avoid a repeat within a repeat such as (a+)+ in it",
            ) from None


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a pattern, once for all runs of a process; ``regex`` itself remembers only 500."""
    return regex.compile(pattern, cache_pattern=False)


class Matching:
    """Searches the lines of one file. ``gaps`` says which patterns were given up.

    ``forget`` is called with the number of a pattern that is to be used in no other file.
    """

    def __init__(
        self, patterns: Patterns, document: Document, forget: Callable[[int], None]
    ) -> None:
        self.patterns = patterns
        self.gaps: dict[str, Gap] = {}
        self._document = document
        self._forget = forget

    def search(self, number: int, text: str, line: Callable[[], int]) -> Match | None:
        """Search a text with a pattern; ``line`` is asked for its number if that must be told."""
        pattern = self.patterns.texts[number]
        if pattern in self.gaps or pattern in self.patterns.ended:
            return None
        try:
            return self.patterns.search(pattern, text)
        except GivenUpError as error:
            self.gaps[pattern] = self._gap(pattern, error, line())
        if pattern in self.patterns.owners:
            self.patterns.ended.add(pattern)
            self._forget(number)
        return None

    def _gap(self, pattern: str, error: GivenUpError, line: int) -> Gap:
        card = self.patterns.owners.get(pattern)
        return self._document.gap(
            f"{error.why} at line {line}",
            what=f"Searching {self._document.path} for the pattern {pattern!r}"
            + (f" of the card {card}" if card else ""),
            cost="lines that it describes are not found"
            + (" from there on, in no file" if card else " in that file"),
            remedy=error.remedy,
            line=line,
        )
