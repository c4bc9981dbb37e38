"""Lines that may stand in a log by the million: read in bulk, not one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from whyhang.analyzer.facts import Fact
from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.coll import MARK as COLL
from whyhang.collectors.logs.coll import CollReader
from whyhang.collectors.logs.fingerprint import MARK as FINGERPRINT
from whyhang.collectors.logs.fingerprint import FingerprintReader
from whyhang.collectors.logs.found import FileView

MARKS = (COLL, FINGERPRINT)
"""What the scanner reports once per block: one mark for the lines of each bulk reader."""


class BulkReader(Protocol):
    """Reads all lines of one kind in a block."""

    def feed(self, block: Block) -> None:
        """Read a block in which the mark occurs."""

    def facts(self) -> Iterator[Fact]:
        """Give what the file said, once all of it has been read."""


def bulk_readers(file: FileView) -> dict[int, BulkReader]:
    """Make the readers for one file, by the number of their mark."""
    return {0: CollReader(file), 1: FingerprintReader(file)}
