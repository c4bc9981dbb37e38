"""The blocks that a page is made of, before any format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from whyhang.analyzer.facts import Record


class Headline(Record):
    """The first line: the verdict as one word and the whole diagnosis as one sentence."""

    verdict: str
    text: str


class Section(Record):
    """A heading. ``level`` 1 is a part of the report, 2 a finding, 3 a part of a finding.

    ``name`` says which part it is, for faces that place or link to it.
    """

    title: str
    level: int = 1
    name: str = ""


class Para(Record):
    """Running text."""

    text: str


class Items(Record):
    """A bulleted list of sentences."""

    items: tuple[str, ...]


class Commands(Record):
    """Commands or checks to run, one a line."""

    items: tuple[str, ...]


class Code(Record):
    """Source lines or stack frames, verbatim."""

    lines: tuple[str, ...]


class Table(Record):
    """Rows of short texts."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def filled(self) -> Table:
        """Return the table without the columns in which nothing stands."""
        kept = [n for n in range(len(self.columns)) if any(row[n] for row in self.rows)]
        columns, *rows = (tuple(row[n] for n in kept) for row in (self.columns, *self.rows))
        return Table(columns=columns, rows=tuple(rows))


class Quotes(Record):
    """Evidence: (where it stands, its words); ``cited`` has file and line of each."""

    items: tuple[tuple[str, str], ...]
    cited: tuple[tuple[str, int | None], ...] = ()


Block: TypeAlias = Headline | Section | Para | Items | Commands | Code | Table | Quotes


def split(blocks: Iterable[Block], level: int) -> Iterator[list[Block]]:
    """Split a page in front of each section of this level, or of one above it."""
    part: list[Block] = []
    for block in blocks:
        if isinstance(block, Section) and block.level <= level and part:
            yield part
            part = []
        part.append(block)
    if part:
        yield part
