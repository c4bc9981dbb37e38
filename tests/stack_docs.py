"""Documents made of text, for the tests of readers."""

from __future__ import annotations

import documents

from whyhang.analyzer.facts import Fact, Frame, Gap, StackDump, Who
from whyhang.analyzer.reading import Document, Reader


def document(content: str | bytes, path: str = "stacks.txt", who: Who | None = None) -> Document:
    """Make a document of text, named as if it came from a folder."""
    return documents.document(content, path, who)


def facts(reader: Reader, content: str | bytes, path: str = "stacks.txt") -> list[Fact]:
    """Read text with one reader, if the reader takes it."""
    made = document(content, path)
    return list(reader.read(made)) if reader.sniff(made) else []


def dumps(reader: Reader, content: str | bytes, path: str = "stacks.txt") -> list[StackDump]:
    """Give the dumps in a text; it must hold no gaps."""
    all_facts = facts(reader, content, path)
    assert not [fact for fact in all_facts if isinstance(fact, Gap)]
    return [fact for fact in all_facts if isinstance(fact, StackDump)]


def functions(frames: tuple[Frame, ...]) -> list[str]:
    """Name the functions of a stack, innermost first."""
    return [frame.function for frame in frames]
