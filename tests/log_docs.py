"""Reads a text as a log, for the tests of the log readers and of what they lead to."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypeVar

import documents
from small_jobs import report_of

from whyhang import signatures
from whyhang.analyzer.facts import NOBODY, Fact, LogLine, Trust, Who
from whyhang.analyzer.reading import Document
from whyhang.analyzer.report import Finding, Report
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.logs.reader import LogReader

F = TypeVar("F", bound=Fact)

INIT_COMPLETE = (
    "{0}:{1}:9 [0] NCCL INFO comm 0x5{1} rank {1} nranks 4 cudaDev 0 busId 1e0 - Init COMPLETE\n"
)
TWO_NODES = "".join(INIT_COMPLETE.format(f"gpu{1 + rank // 2}", rank) for rank in range(4))
"""What NCCL prints of four ranks on two nodes, once their communicator stands."""


def document(data: bytes | str, name: str = "job.log") -> Document:
    """Make a document of a text."""
    return documents.document(data, name)


def read_log(
    data: bytes | str, *patterns: str, name: str = "job.log", engine: str = "auto"
) -> list[Fact]:
    """Scan a text for patterns and give all facts."""
    return list(LogReader(patterns, engine=engine).read(document(data, name)))


def of(facts: Iterable[Fact], kind: type[F]) -> list[F]:
    """Give the facts of one kind."""
    return [fact for fact in facts if isinstance(fact, kind)]


def lines(
    data: bytes | str, *patterns: str, name: str = "job.log", engine: str = "auto"
) -> list[LogLine]:
    """Give the lines found for outside patterns."""
    records = of(read_log(data, *patterns, name=name, engine=engine), LogLine)
    return [line for line in records if set(line.matched) & set(patterns)]


@functools.cache
def reader() -> LogReader:
    """Make a log reader that looks for all signatures."""
    return LogReader(pattern for s in signatures.load() for pattern in s.searched)


def diagnosed(logs: dict[int | None, str]) -> Report:
    """Diagnose one log for each rank; ``None`` is a log of the launcher or of all ranks."""
    facts = []
    for rank, text in logs.items():
        who = NOBODY if rank is None else Who(rank=rank, trust=Trust.FILE_NAME)
        facts += list(reader().read(documents.document(text, f"rank{rank}.log", who)))
    return report_of(facts)


def diagnosed_files(files: Mapping[str, str]) -> Report:
    """Diagnose files of any kind, by their names."""
    made = [document(text, name) for name, text in files.items()]
    return report_of(read_documents(made, readers=(*READERS, reader())))


Blame = tuple[dict[int | None, str], str, tuple[int, ...] | None]
"""Logs as ``diagnosed`` takes them, the signature of their cause, and whom it must blame."""


def blamed_besides(report: Report, culprits: tuple[int, ...] | None) -> list[Finding]:
    """Return what blames others than the culprits, likely and on its own account."""
    return [
        finding
        for finding in report.findings[1:]
        if finding.caused_by is None
        and finding.confidence >= 0.5
        and set(finding.culprit_ranks or ()) - set(culprits or finding.culprit_ranks or ())
    ]
