"""The search for many patterns in one pass, with Hyperscan.

Compiling some hundred patterns takes a third of a second, loading them a few milliseconds, so the
compiled database is kept from one run to the next.
"""

import contextlib
import hashlib
import platform
import sys
import threading
from collections.abc import Collection, Sequence

import hyperscan

from whyhang.collectors import cache
from whyhang.collectors.logs.engine.byte_blocks import Block, Hit
from whyhang.collectors.logs.engine.needle import Needle, literal, needle_of
from whyhang.collectors.logs.engine.pattern import UnsearchableError

LONG_WORD = 8  # from here on a word is rare enough to be looked for instead of an expression

Code = tuple[int, bytes, int]
"""What Hyperscan compiles: the number of the pattern, an expression, and its flags."""


class HyperscanSearcher:
    """Searches with a database of all patterns, which is kept from one run to the next."""

    threaded = True

    def __init__(self, patterns: Sequence[str], once: Collection[str] = ()) -> None:
        self.unsearchable: list[tuple[str, str]] = []
        self._patterns = patterns
        self._once = once
        self._exact: dict[int, _Scanner | None] = {}
        version = str(getattr(hyperscan, "__version__", ""))
        key = _name(version, [*patterns, "once:", *sorted(once)])
        database = load(key)
        if database is None:
            database = self._compiled()
            if not self.unsearchable:
                save(key, database)
        self._scanner = _Scanner(database)

    def _compiled(self) -> hyperscan.Database:
        try:
            return _compiled(self._codes())
        except hyperscan.HyperscanError:  # it does not tell which expression it refuses
            return _compiled(self._codes(one_refused=True))

    def _codes(self, *, one_refused: bool = False) -> list[Code]:
        """Return what to look for: long words, else the expression, else short words.

        Long words are found twice as fast as an expression. ``one_refused`` tries each expression
        by itself, which takes three times as long.
        """
        codes: list[Code] = []
        self.unsearchable.clear()
        for number, pattern in enumerate(self._patterns):
            try:
                needle = needle_of(pattern)
            except UnsearchableError as error:
                self.unsearchable.append((pattern, str(error)))
                continue
            once = hyperscan.HS_FLAG_SINGLEMATCH if pattern in self._once else 0
            wanted = [literal(word) for word in sorted(needle.words)]
            if needle.expression and needle.shortest < LONG_WORD:
                expression = needle.part or needle.expression
                alone = (number, expression, _flags(needle))
                if not one_refused or _scanner(alone) is not None:
                    wanted = [expression]
            if not wanted:
                self.unsearchable.append((pattern, "Hyperscan refuses it, and it has no word"))
            codes += [(number, code, _flags(needle) | once) for code in wanted]
        return codes

    def search(self, block: Block, most: int = sys.maxsize) -> list[Hit] | None:
        """Look for everything in one pass, but give up at more than ``most`` hits."""
        return self._scanner.scan(block, most)

    def exact(self, block: Block, number: int) -> list[Hit] | None:
        """Search for the expression of a pattern, of which else a word is looked for."""
        if number not in self._exact:
            needle = needle_of(self._patterns[number])
            code = needle.expression and (number, needle.expression, _flags(needle))
            self._exact[number] = _scanner(code) if code else None
        scanner = self._exact[number]
        return None if scanner is None else scanner.scan(block)


class _Scanner:
    """A compiled database, for use by several threads."""

    def __init__(self, database: hyperscan.Database) -> None:
        self._database = database
        self._own = threading.local()

    def scan(self, block: Block, most: int = sys.maxsize) -> list[Hit] | None:
        """Return the hits in a block; None if there are more than ``most``."""
        hits: list[Hit] = []

        def on_hit(number: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            hits.append((end, number))
            return len(hits) > most

        if not hasattr(self._own, "scratch"):
            self._own.scratch = hyperscan.Scratch(self._database)  # each thread needs one
        # One byte more: in a block of 17 to 34 bytes Hyperscan 5.4 can miss what ends at its end.
        with memoryview(block.data) as data, data[block.start : block.stop + 1] as view:
            try:
                self._database.scan(view, match_event_handler=on_hit, scratch=self._own.scratch)  # type: ignore[type-var]  # any buffer
            except hyperscan.ScanTerminated:
                return None
        return hits


def _compiled(codes: Sequence[Code]) -> hyperscan.Database:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        ids=[number for number, _, _ in codes],
        expressions=[expression for _, expression, _ in codes],
        flags=[flags for _, _, flags in codes],
        elements=len(codes),
    )
    return database


def _scanner(code: Code) -> _Scanner | None:
    """Return a scanner for one expression; None if Hyperscan refuses it."""
    try:
        return _Scanner(_compiled([code]))
    except hyperscan.HyperscanError:
        return None


def _flags(needle: Needle) -> int:
    return hyperscan.HS_FLAG_CASELESS if needle.caseless else 0


FORMAT = 6  # to be raised when what is looked for instead of a pattern changes
KIND = "patterns"
KEEP = 8  # databases; older ones are deleted


def _name(version: str, patterns: Sequence[str]) -> str:
    """Name the database of these patterns: equal names, equal content."""
    parts = [str(FORMAT), version, platform.machine(), *patterns]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def load(key: str) -> hyperscan.Database | None:
    """Load a database compiled before; None if there is none or it does not serve here."""
    data = cache.kept(KIND, key)
    if data is None:
        return None
    try:
        database = hyperscan.loadb(data, mode=hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        # One compiled on another kind of CPU says so on its first use.
        database.scan(b"", match_event_handler=lambda *_: None)
    except (RuntimeError, ValueError, hyperscan.HyperscanError):
        return None
    return database


def save(key: str, database: hyperscan.Database) -> None:
    """Keep a database for the next run, if that is possible."""
    with contextlib.suppress(RuntimeError, ValueError, hyperscan.HyperscanError):
        cache.keep(KIND, key, hyperscan.dumpb(database), most=KEEP)
