"""Where in a block of bytes any of many patterns may match: the fast part of reading logs.

A ``Searcher`` reports, for each pattern, the positions at which a match may end, and which of a
few *marks* (plain byte strings) occur at all. It may report too much, never too little: each
line found is searched again with the pattern itself. Hyperscan does it in one pass over the
block whatever the number of patterns; without it the standard library looks for the words that
each match must contain, with the same result at a hundredth of the speed.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from whyhang.analyzer.facts import Gap
from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.speakers import speaker
from whyhang.collectors.logs.syntax import (
    UntranslatableError,
    hyperscan_form,
    is_vague,
    required_words,
)

if TYPE_CHECKING:
    import hyperscan

LEAST_WORD = 3  # shorter words stand in nearly every line
LONG_WORD = 8  # from here on a word is rare enough to be looked for instead of its pattern
WORD_PART = 16  # bytes of it that are

Hit = tuple[int, int]
"""Where a match may end (offset in the block, just behind it), and the pattern's number."""


Searched = tuple[list[Hit], set[int]]
"""The hits in a block, in no order, and the numbers of the marks that occur in it."""


class Searcher(Protocol):
    """Finds many patterns at once. ``threaded``: several blocks can be searched side by side."""

    threaded: bool
    sampled: frozenset[int]  # patterns that are reported once per block: ask for their places

    def places(self, block: Block, number: int, most: int) -> tuple[list[Hit], int]:
        """Find a sampled pattern in a block: the last line of each who says it.

        Gives also how many lines were looked at, which are at most ``most``.
        """

    def search(self, block: Block) -> Searched:
        """Search the lines of a block."""

    def search_some(self, block: Block, most: int) -> Searched | None:
        """Search a block, but give up (None) at more than ``most`` hits."""

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Search for one pattern more exactly, if that can be done (else None)."""

    def forget(self, number: int) -> None:
        """Look for one pattern no longer."""


def searcher(
    patterns: Sequence[str],
    marks: Sequence[bytes],
    *,
    sampled: Collection[str] = (),
    engine: str = "auto",
) -> tuple[Searcher, tuple[Gap, ...]]:
    """Make a searcher for patterns and marks, and say what it cannot do.

    ``sampled`` are patterns that may stand in a third of all lines, where telling each would
    cost more than the search. ``engine`` is "auto", or "words" to do without Hyperscan. Patterns
    that even the fallback cannot look for are named in a gap and never found.
    """
    if engine == "auto":
        try:
            import hyperscan  # noqa: F401, PLC0415 - heavy, and may be missing

            return hyperscan_searcher(patterns, marks, sampled)
        except ImportError:
            pass
    words = WordSearcher(patterns, marks)
    slow = Gap(
        what="Searching logs with Hyperscan",
        why="the package hyperscan is not installed or does not load here",
        cost="big logs take up to a hundred times as long, with the same result",
        remedy="pip install hyperscan",
    )
    return words, (*((slow,) if engine == "auto" else ()), *unsearchable(words.unsearchable))


def unsearchable(patterns: Iterable[tuple[str, str]]) -> tuple[Gap, ...]:
    """Say which patterns cannot be looked for, and why."""
    return tuple(
        Gap(
            what=f"Searching logs for the pattern {pattern!r}",
            why=why,
            cost="lines that it describes are not found",
            remedy="give it a literal word of three or more letters",
        )
        for pattern, why in patterns
    )


class WordSearcher:
    """Searches with the standard library for words that matches must contain."""

    threaded = False
    sampled: frozenset[int] = frozenset()

    def __init__(self, patterns: Sequence[str], marks: Sequence[bytes]) -> None:
        self.marks = tuple(marks)
        self.unsearchable: list[tuple[str, str]] = []
        self._exact: dict[bytes, list[int]] = {}
        self._caseless: dict[bytes, list[int]] = {}
        self._wordless: list[int] = []
        for number, pattern in enumerate(patterns):
            self._add(number, pattern)

    def _add(self, number: int, pattern: str) -> None:
        try:
            words, caseless = words_of(pattern, least=1)
        except UntranslatableError as error:
            try:
                hyperscan_form(pattern)  # what Hyperscan finds without a word is found here, too
            except UntranslatableError:
                self.unsearchable.append((pattern, str(error)))
            else:
                self._wordless.append(number)
            return
        for word in words:
            if caseless:
                self._caseless.setdefault(word.lower(), []).append(number)
            else:
                self._exact.setdefault(word, []).append(number)

    def search_some(self, block: Block, most: int) -> Searched | None:
        """Search a block, but give up at more than ``most`` hits."""
        found = self.search(block)
        return found if len(found[0]) <= most else None

    def places(self, block: Block, number: int, most: int) -> tuple[list[Hit], int]:  # noqa: ARG002
        """Words are always told in full."""
        return [], 0

    def exact(self, block: Block, number: int) -> list[Hit] | None:  # noqa: ARG002 - an interface
        """Words cannot be looked for more exactly."""
        return None

    def forget(self, number: int) -> None:
        """Look for one pattern no longer."""
        for numbers in (*self._exact.values(), *self._caseless.values(), self._wordless):
            if number in numbers:
                numbers.remove(number)

    def search(self, block: Block) -> Searched:
        """Look for each word in turn: many quick passes over a block that stays in the cache."""
        data = bytes(block.data[block.start : block.stop])
        marks = {number for number, mark in enumerate(self.marks) if mark in data}
        hits = list(_find_words(data, self._exact))
        if self._caseless:
            hits += _find_words(data.lower(), self._caseless)
        if self._wordless:
            hits += _find_words(data + b"\n", {b"\n": self._wordless})
        return hits, marks


def _find_words(data: bytes, words: dict[bytes, list[int]]) -> Iterator[Hit]:
    for word, numbers in words.items():
        at = data.find(word)
        while at >= 0:
            for number in numbers:
                yield at + len(word), number
            at = data.find(word, at + 1)


@functools.cache
def words_of(pattern: str, least: int = LEAST_WORD) -> tuple[frozenset[bytes], bool]:
    """List the words to look for instead of a pattern, and whether letter case is ignored.

    Raises ``UntranslatableError`` where there is no word of at least ``least`` letters, or the
    pattern is wrong.
    """
    import regex  # noqa: PLC0415 - heavy

    try:
        words, caseless = required_words(pattern)
    except UntranslatableError as error:
        try:
            regex.compile(pattern)
        except regex.error as wrong:
            raise UntranslatableError(f"it is not a valid regular expression: {wrong}") from None
        words, caseless = frozenset(longest_plain_run(pattern)), True
        if not words:
            raise error from None
    if not words or min(len(word) for word in words) < least:
        raise UntranslatableError(f"no word of {least} letters is in every match")
    return frozenset(word.encode() for word in words), caseless


def cannot_search(pattern: str) -> str | None:
    """Say why logs cannot be searched for a pattern; None if they can."""
    try:
        words_of(pattern)
    except UntranslatableError as no_word:
        try:
            hyperscan_form(pattern)
        except UntranslatableError:
            return str(no_word)
    return None


def _has_word(pattern: str) -> bool:
    """Tell whether there is a word to look for instead of the pattern."""
    try:
        words_of(pattern)
    except UntranslatableError:
        return False
    return True


def longest_plain_run(pattern: str) -> list[str]:
    """Give the longest run of letters and blanks outside of brackets, if it is long enough."""
    if "|" in pattern or "?" in pattern or "*" in pattern:
        return []  # what looks like a word may be optional
    bare = re.sub(r"\[[^\]]*\]|\{[^}]*\}|\\.|\(", "\0", pattern)
    runs = re.findall(r"[A-Za-z ]{3,}", bare)
    return [max(runs, key=len)] if runs else []


class HyperscanSearcher:
    """Searches with a compiled Hyperscan database."""

    threaded = True

    def __init__(
        self,
        database: hyperscan.Database,
        patterns: Sequence[str],
        marks: Sequence[bytes] = (),
        sampled: Collection[str] = (),
    ) -> None:
        self.sampled = frozenset(n for n, pattern in enumerate(patterns) if pattern in sampled)
        self._database = database
        self._patterns = patterns
        self._marks = marks
        self._forgotten: set[int] = set()
        self._own = threading.local()
        self._exact: dict[int, HyperscanSearcher | None] = {}

    def places(self, block: Block, number: int, most: int) -> tuple[list[Hit], int]:
        """Find the word of a sampled pattern: what each speaker says last in the block.

        At most ``most`` places are looked at, half of them from each end of the block.
        """
        words, _ = words_of(self._patterns[number])
        data = block.data
        last: dict[bytes, int] = {}
        seen = 0
        for word in (word[:WORD_PART] for word in words):
            first, behind = _ends(data, word, block.start, block.stop, most)
            for at in (*first, *behind):
                last[speaker(data, at)] = at + len(word)
            seen += len(first) + len(behind)
        return [(end - block.start, number) for end in last.values()], seen

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Search for a whole pattern, where the first search only looked for a word of it."""
        if number not in self._exact:
            self._exact[number] = _exact_searcher(self._patterns[number])
        found = self._exact[number]
        return None if found is None else [(end, number) for end, _ in found.search(block)[0]]

    def forget(self, number: int) -> None:
        """Look for one pattern no longer: its hits would cost time in every block."""
        self._forgotten.add(number)
        self._database, _ = _database(
            self._patterns,
            self._marks,
            without=self._forgotten,
            sampled={self._patterns[number] for number in self.sampled},
        )

    def search(self, block: Block) -> Searched:
        """Look for everything in one pass."""
        found = self.search_some(block, sys.maxsize)
        assert found is not None
        return found

    def search_some(self, block: Block, most: int) -> Searched | None:
        """Look for everything in one pass, but give up at more than ``most`` hits."""
        import hyperscan  # noqa: PLC0415

        hits: list[Hit] = []
        marks: set[int] = set()
        limit = len(self._marks)
        database = self._database  # another thread may put a smaller one in its place

        def found(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            if number < limit:
                marks.add(number)
            else:
                hits.append((end, number - limit))
            return len(hits) > most

        if getattr(self._own, "database", None) is not database:
            self._own.database = database
            self._own.scratch = hyperscan.Scratch(database)  # each thread needs one
        # One byte more: in a block of 17 to 34 bytes Hyperscan 5.4 can miss what ends at its end.
        with memoryview(block.data) as data, data[block.start : block.stop + 1] as view:
            try:
                database.scan(view, match_event_handler=found, scratch=self._own.scratch)  # type: ignore[type-var]  # any buffer
            except hyperscan.ScanTerminated:
                return None
        return hits, marks


def _ends(
    data: bytes | bytearray, word: bytes, start: int, stop: int, most: int
) -> tuple[list[int], list[int]]:
    """Find the first and the last places of a word, up to half of ``most`` each, in order."""
    first: list[int] = []
    at = start - 1
    while len(first) < most - most // 2 and (at := data.find(word, at + 1, stop)) >= 0:
        first.append(at)
    behind: list[int] = []
    while at >= 0 and len(behind) < most // 2 and (stop := data.rfind(word, at + 1, stop)) >= 0:
        behind.append(stop)
    return first, behind[::-1]


def hyperscan_searcher(
    patterns: Sequence[str], marks: Sequence[bytes], sampled: Collection[str] = ()
) -> tuple[Searcher, tuple[Gap, ...]]:
    """Compile all patterns into one database, or take the one compiled last time.

    Raises ``ImportError`` if Hyperscan does not load.
    """
    import hyperscan  # noqa: PLC0415 - heavy, and may be missing

    from whyhang.collectors.logs import cache as log_cache  # noqa: PLC0415

    name = log_cache.name(str(getattr(hyperscan, "__version__", "")), [*patterns, *sampled], marks)
    database = log_cache.load(name)
    if database is not None:
        return HyperscanSearcher(database, patterns, marks, sampled), ()
    database, lost = _database(patterns, marks, sampled=sampled)
    if not lost:
        log_cache.save(name, database)
    return HyperscanSearcher(database, patterns, marks, sampled), unsearchable(lost)


def _database(
    patterns: Sequence[str],
    marks: Sequence[bytes],
    *,
    without: Collection[int] = (),
    sampled: Collection[str] = (),
) -> tuple[hyperscan.Database, list[tuple[str, str]]]:
    """Compile all patterns but some; give those that cannot be looked for, and why."""
    import hyperscan  # noqa: PLC0415

    try:
        return _compiled(patterns, marks, without, sampled, suspicious=False)
    except hyperscan.HyperscanError:
        return _compiled(patterns, marks, without, sampled, suspicious=True)


def _compiled(
    patterns: Sequence[str],
    marks: Sequence[bytes],
    without: Collection[int],
    sampled: Collection[str],
    *,
    suspicious: bool,
) -> tuple[hyperscan.Database, list[tuple[str, str]]]:
    """Compile all; ``suspicious`` tries each pattern by itself, which takes three times as long."""
    import hyperscan  # noqa: PLC0415

    codes = [literal(mark) for mark in marks]
    flags = [hyperscan.HS_FLAG_SINGLEMATCH] * len(marks)
    numbers = list(range(len(marks)))
    lost: list[tuple[str, str]] = []
    for number, pattern in enumerate(patterns):
        if number in without:
            continue
        for code, caseless in _expressions(pattern, lost, suspicious=suspicious):
            codes.append(code)
            once = hyperscan.HS_FLAG_SINGLEMATCH if pattern in sampled else 0
            flags.append((hyperscan.HS_FLAG_CASELESS if caseless else 0) | once)
            numbers.append(number + len(marks))
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=codes, ids=numbers, elements=len(codes), flags=flags)
    return database, lost


def _expressions(
    pattern: str, lost: list[tuple[str, str]], *, suspicious: bool
) -> list[tuple[bytes, bool]]:
    """Write a pattern for Hyperscan; the flag says: letter case is ignored.

    The beginning of a long word that every match contains is found twice as fast as the whole
    pattern, and is rare enough in most logs. Else the pattern is loosened.
    """
    try:
        words, caseless = words_of(pattern)
    except UntranslatableError as error:
        if (exact := _loosened(pattern, suspicious=suspicious)) is not None:
            return [exact]
        lost.append((pattern, str(error)))
        return []
    if min(len(word) for word in words) >= LONG_WORD:
        return [(literal(word[:WORD_PART]), caseless) for word in sorted(words)]
    exact = _loosened(pattern, suspicious=suspicious)
    return [exact] if exact else [(literal(word), caseless) for word in sorted(words)]


def _loosened(pattern: str, *, suspicious: bool) -> tuple[bytes, bool] | None:
    with contextlib.suppress(UntranslatableError):
        code, caseless = hyperscan_form(pattern)
        if not (is_vague(pattern) and _has_word(pattern)) and (not suspicious or compiles(code)):
            return code, caseless
    return None


def _exact_searcher(pattern: str) -> HyperscanSearcher | None:
    """Make a searcher for one pattern as a whole; None if Hyperscan cannot look for it."""
    import hyperscan  # noqa: PLC0415

    found = _loosened(pattern, suspicious=True)
    if found is None:
        return None
    code, caseless = found
    flag = hyperscan.HS_FLAG_CASELESS if caseless else 0
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=[code], ids=[0], elements=1, flags=[flag])
    return HyperscanSearcher(database, [pattern])


def literal(word: bytes) -> bytes:
    """Write bytes so that no sign has a special meaning."""
    return b"".join(b"\\x%02x" % byte for byte in word)


def compiles(code: bytes) -> bool:
    """Tell whether Hyperscan takes an expression: one bad one would spoil the whole database."""
    import hyperscan  # noqa: PLC0415

    try:
        hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK).compile(
            expressions=[code], ids=[0], elements=1, flags=[0]
        )
    except hyperscan.HyperscanError:
        return False
    return True
