"""Reads a text as a log, for the tests of the log readers and of what they lead to."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterable, Mapping
from typing import TypeVar

from small_jobs import report_of

from whyhang import signatures
from whyhang.analyzer.facts import NOBODY, Fact, LogLine, Trust, Who
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.analyzer.report import Report
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.naming import from_path
from whyhang.collectors.logs.scan import LogReader

F = TypeVar("F", bound=Fact)


def document(data: bytes | str, name: str = "job.log") -> Document:
    """Make a document of a text."""
    raw = data.encode() if isinstance(data, str) else data
    return Document(
        path=name,
        head=raw[:HEAD_BYTES],
        size=len(raw),
        open=lambda: io.BytesIO(raw),
        who=from_path(name),
    )


def read_log(
    data: bytes | str,
    *patterns: str,
    name: str = "job.log",
    engine: str = "auto",
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
    found = of(read_log(data, *patterns, name=name, engine=engine), LogLine)
    return [line for line in found if set(line.matched) & set(patterns)]


@functools.cache
def reader() -> LogReader:
    """Make a log reader that looks for all signatures."""
    return LogReader(pattern for s in signatures.load() for pattern in s.searched)


def diagnosed(logs: dict[int | None, str]) -> Report:
    """Diagnose one log for each rank; ``None`` is a log of the launcher or of all ranks."""
    facts = []
    for rank, text in logs.items():
        data = text.encode()
        who = NOBODY if rank is None else Who(rank=rank, trust=Trust.FILE_NAME)
        document = Document(
            path=f"rank{rank}.log",
            head=data,
            size=len(data),
            open=functools.partial(io.BytesIO, data),
            who=who,
        )
        facts += list(reader().read(document))
    return report_of(facts)


def diagnosed_files(files: Mapping[str, str]) -> Report:
    """Diagnose files of any kind, by their names."""
    documents = [document(text, name) for name, text in files.items()]
    return report_of(read_documents(documents, readers=(*READERS, reader())))
