"""The one way from a text with stacks in it to dumps; what differs is how a tool prints them."""

from __future__ import annotations

from collections.abc import Iterator

from whyhang.analyzer.facts import MAX_RANKS, Fact, Gap, Record
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.stacks.owner import dumps
from whyhang.collectors.stacks.passages import holds, passages
from whyhang.collectors.stacks.sections import Sections


class StackText(Record):
    """Reads what one tool prints, alone or inside logs.

    A text with one of ``marks`` in it is for this reader. ``sections`` is what takes the stacks
    out of a passage.
    """

    name: str
    tool: str
    marks: tuple[bytes, ...]
    sections: type[Sections]

    def sniff(self, document: Document) -> bool:
        """Return whether one of the marks is in the document."""
        return holds(document, self.marks)

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield a dump for each process in the text, in its order."""
        garbled, ranks_left = 0, MAX_RANKS
        for passage in passages(document, self.marks):
            sections = self.sections()
            sections.ranks_left = ranks_left
            too_slow = None
            try:
                sections.read(passage)
            except limits.TooSlowError as error:
                too_slow = error
            for section in sections.finish():
                yield from dumps(document, self.tool, section, passage.who)
                garbled += section.garbled
            if too_slow is not None:
                raise too_slow
            ranks_left = sections.ranks_left
        if garbled:
            yield Gap(
                what=f"reading the stacks in {document.path}",
                why=f"{garbled} of them are garbled: several processes wrote into it at once",
                cost="the processes they belong to are not placed",
                remedy="Dump one process at a time, or with py-spy",
                source=document.source(),
            )
