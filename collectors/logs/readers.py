"""The readers of single lines, all of them."""

from __future__ import annotations

import io

from whyhang.analyzer.model import NOBODY
from whyhang.analyzer.reading import Document
from whyhang.collectors.logs.bulk import bulk_readers
from whyhang.collectors.logs.desync import DesyncReader
from whyhang.collectors.logs.elastic import ElasticReader
from whyhang.collectors.logs.exits import ExitReader
from whyhang.collectors.logs.fingerprint import MismatchReader
from whyhang.collectors.logs.found import FileView, LineReader
from whyhang.collectors.logs.job import JobReader
from whyhang.collectors.logs.nccl import NcclReader
from whyhang.collectors.logs.nccl_error import LastErrorReader
from whyhang.collectors.logs.nccl_start import CONNECTING, NcclStartReader
from whyhang.collectors.logs.python import TracebackReader
from whyhang.collectors.logs.watchdog import WatchdogReader

NOTHING = Document(path="", head=b"", size=0, open=io.BytesIO, who=NOBODY)


def line_readers(file: FileView) -> tuple[LineReader, ...]:
    """Make the readers for one file."""
    return (
        JobReader(file),  # first: what it learns resolves the ranks of the others
        NcclReader(file),  # likewise
        NcclStartReader(file),
        LastErrorReader(file),
        ExitReader(file),
        ElasticReader(file),
        WatchdogReader(file),
        DesyncReader(file),
        MismatchReader(file),
        TracebackReader(file),
    )


def sampled_patterns() -> frozenset[str]:
    """List the patterns that find lines of which a log may hold millions, and few matter."""
    return frozenset({CONNECTING})


def patterns_told_once() -> frozenset[str]:
    """List the patterns of which one hit in a block is enough."""
    return sampled_patterns() | bulk_readers(FileView(NOTHING)).keys()


def own_patterns() -> frozenset[str]:
    """List the patterns that the readers look for."""
    readers = line_readers(FileView(NOTHING))
    return patterns_told_once().union(*(reader.watches() for reader in readers))
