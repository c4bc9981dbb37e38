"""Lines that may stand in a log by the million: read in bulk, not one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from whyhang.analyzer.model import Fact
from whyhang.collectors.logs.blocks import Block
from whyhang.collectors.logs.coll import CollReader
from whyhang.collectors.logs.fingerprint import FingerprintReader
from whyhang.collectors.logs.found import FileView

COLL = r": opCount "
FINGERPRINT = r"Running collective: CollectiveFingerPrint\("


class BulkReader(Protocol):
    """Reads all lines of one kind in a block."""

    def feed(self, block: Block) -> None:
        """Read a block in which the pattern was found."""

    def facts(self) -> Iterator[Fact]:
        """Give what the file said, once all of it has been read."""


def bulk_readers(file: FileView) -> dict[str, BulkReader]:
    """Make the readers for one file, by the pattern that is reported once a block."""
    return {COLL: CollReader(file), FINGERPRINT: FingerprintReader(file)}
