"""The readers of lines, all of them: each kind of lines has a file."""

from whyhang.collectors.logs.lines.debug_detail import (
    DesyncReader,
    FingerprintReader,
    MismatchReader,
)
from whyhang.collectors.logs.lines.exits import ExitReader
from whyhang.collectors.logs.lines.exits_of_several import ExitsOfSeveralReader
from whyhang.collectors.logs.lines.job import CommandReader, ElasticReader, JobReader
from whyhang.collectors.logs.lines.line_reader import LineReader
from whyhang.collectors.logs.lines.nccl_collectives import CollReader
from whyhang.collectors.logs.lines.nccl_communicators import NcclReader
from whyhang.collectors.logs.lines.nccl_start import NcclStartReader
from whyhang.collectors.logs.lines.process_ranks import PlacementReader, ProcessRankReader
from whyhang.collectors.logs.lines.tracebacks import TracebackReader
from whyhang.collectors.logs.lines.watchdog import WatchdogReader
from whyhang.collectors.logs.lines.what_failed import LastErrorReader, WhatFailedReader

READERS: tuple[type[LineReader], ...] = (
    JobReader,  # first: what it learns resolves the ranks of the others
    ProcessRankReader,  # likewise
    PlacementReader,  # likewise
    CommandReader,
    NcclReader,  # likewise
    NcclStartReader,
    LastErrorReader,
    ExitReader,
    ExitsOfSeveralReader,
    ElasticReader,
    WatchdogReader,
    DesyncReader,
    MismatchReader,
    TracebackReader,
    CollReader,
    WhatFailedReader,
    FingerprintReader,
)

ONCE_A_BLOCK = frozenset[str]().union(*(reader.wants_blocks for reader in READERS))
"""Patterns of which one hit in a block is enough."""

OWN_PATTERNS = ONCE_A_BLOCK.union(*(reader.wants for reader in READERS))
"""All patterns that readers look for."""
