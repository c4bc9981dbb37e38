"""Which of some words occur in a file: how readers of text tell that a file may be for them.

In a few kilobytes each word is looked for by itself. In megabytes Hyperscan looks for all of
them at once, which is ten times as fast with a dozen words.
"""

from __future__ import annotations  # of a Database, where there is no hyperscan

import contextlib
import functools
import threading
from typing import BinaryIO

try:
    import hyperscan
except ImportError:  # it has no wheel for this machine
    hyperscan = None  # type: ignore[assignment]

MANY = 64 << 10
"""Bytes, of all files so far, from which on looking for all words at once is worth its start."""

PIECE = 1 << 20  # bytes of a file that are looked at together


class Marks:
    """Words that a reader looks for, in any of several threads."""

    def __init__(self, *words: bytes) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._searched = 0  # bytes
        self._own = threading.local()

    def within_file(self, stream: BinaryIO, size: int) -> frozenset[bytes]:
        """Return those of the words that occur in the next ``size`` bytes of a file."""
        words: frozenset[bytes] = frozenset()
        longest = max(map(len, self.words))
        data = b""
        while size > 0 and (piece := stream.read(min(PIECE, size))):
            size -= len(piece)
            data = data[-longest:] + piece  # a word may lie across two pieces
            words |= self.within(data)
        return words

    def within(self, data: bytes) -> frozenset[bytes]:
        """Return those of the words that occur in ``data``."""
        self._searched += len(data)
        database = self._database if self._searched > MANY else None
        if database is None:
            return frozenset(word for word in self.words if word in data)
        words: set[bytes] = set()

        def note(number: int, *_: object) -> bool:
            words.add(self.words[number])
            return len(words) == len(self.words)  # enough

        if not hasattr(self._own, "scratch"):
            self._own.scratch = hyperscan.Scratch(database)  # each thread needs one
        with contextlib.suppress(hyperscan.ScanTerminated):
            database.scan(data, match_event_handler=note, scratch=self._own.scratch)
        return frozenset(words)

    @functools.cached_property
    def _database(self) -> hyperscan.Database | None:
        """Compile the words, in a few milliseconds; None where Hyperscan is not to be had."""
        if hyperscan is None:
            return None
        try:
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=[b"".join(b"\\x%02x" % byte for byte in word) for word in self.words],
                ids=list(range(len(self.words))),
                elements=len(self.words),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self.words),
            )
        except hyperscan.HyperscanError:  # a processor that it does not know
            return None
        return database
