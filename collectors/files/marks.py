"""Which of some words occur in a file: how readers of text tell that a file may be for them.

In a few kilobytes each word is looked for by itself. In megabytes Hyperscan looks for all of
them at once, which is ten times as fast with a dozen words.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, BinaryIO

from whyhang.collectors.files.pieces import read_into

if TYPE_CHECKING:
    import hyperscan

MANY = 64 << 10
"""Bytes, of all files so far, from which on looking for all words at once is worth its start."""

PIECE = 1 << 20
"""Bytes of a file that are looked at together."""


class Marks:
    """Words that a reader looks for."""

    def __init__(self, *words: bytes) -> None:
        self.words = tuple(dict.fromkeys(words))
        self._seen = 0

    def within_file(self, stream: BinaryIO, size: int) -> frozenset[bytes]:
        """Give those of the words that occur in the next ``size`` bytes of a file."""
        found: frozenset[bytes] = frozenset()
        longest = max(map(len, self.words))
        data = bytearray(longest + PIECE)  # one for all pieces: fresh memory costs as much as both
        kept = 0
        while size > 0:
            got = read_into(stream, data, kept, min(PIECE, size))
            if not got:
                break
            size -= got
            end = kept + got
            found |= self.within(data if end == len(data) else data[:end])
            kept = min(end, longest)
            data[:kept] = data[end - kept : end]  # a word may lie across two pieces
        return found

    def within(self, data: bytes | bytearray) -> frozenset[bytes]:
        """Give those of the words that occur in ``data``."""
        self._seen += len(data)
        database = self._database if self._seen > MANY else None
        if database is None:
            return frozenset(word for word in self.words if word in data)
        found: set[bytes] = set()

        def note(number: int, *_: object) -> bool:
            found.add(self.words[number])
            return len(found) == len(self.words)  # enough

        import hyperscan  # noqa: PLC0415 - heavy

        with contextlib.suppress(hyperscan.ScanTerminated):
            database.scan(data, match_event_handler=note)  # type: ignore[type-var]  # any buffer
        return frozenset(found)

    @functools.cached_property
    def _database(self) -> hyperscan.Database | None:
        """Compile the words, in a few milliseconds; None where Hyperscan is not to be had."""
        try:
            import hyperscan  # noqa: PLC0415 - heavy, and may be missing
        except ImportError:
            return None
        try:
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            database.compile(
                expressions=[b"".join(b"\\x%02x" % byte for byte in word) for word in self.words],
                ids=list(range(len(self.words))),
                elements=len(self.words),
                flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self.words),
            )
            database.scratch = hyperscan.Scratch(database)
        except hyperscan.HyperscanError:  # a processor that it does not know
            return None
        return database
