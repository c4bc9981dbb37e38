"""The readers of lines, all of them: each kind of lines has a file."""

from __future__ import annotations

from whyhang.collectors.logs.coll import CollReader
from whyhang.collectors.logs.desync import DesyncReader
from whyhang.collectors.logs.elastic import ElasticReader
from whyhang.collectors.logs.exits import ExitReader
from whyhang.collectors.logs.fingerprint import FingerprintReader, MismatchReader
from whyhang.collectors.logs.found import LineReader
from whyhang.collectors.logs.job import JobReader
from whyhang.collectors.logs.nccl import NcclReader
from whyhang.collectors.logs.nccl_error import LastErrorReader
from whyhang.collectors.logs.nccl_start import NcclStartReader
from whyhang.collectors.logs.python import TracebackReader
from whyhang.collectors.logs.watchdog import WatchdogReader

READERS: tuple[type[LineReader], ...] = (
    JobReader,  # first: what it learns resolves the ranks of the others
    NcclReader,  # likewise
    NcclStartReader,
    LastErrorReader,
    ExitReader,
    ElasticReader,
    WatchdogReader,
    DesyncReader,
    MismatchReader,
    TracebackReader,
    CollReader,
    FingerprintReader,
)

TOLD_ONCE = frozenset[str]().union(*(reader.wants_blocks for reader in READERS))
"""Patterns of which one hit in a block is enough."""

OWN_PATTERNS = TOLD_ONCE.union(*(reader.wants for reader in READERS))
"""All patterns that readers look for."""
