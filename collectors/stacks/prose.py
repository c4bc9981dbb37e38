"""What people write of a hang, told from what programs print, and the shell of its readers."""

from collections.abc import Callable, Iterator

from whyhang.analyzer.facts import NOBODY, Fact, Frame, Record, StackDump, Thread, Who
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.logs.text.line import Voice, take_apart
from whyhang.collectors.stacks.frames import MAIN

LARGEST_BYTES = 64 << 10
NO_PROSE = (".py", ".sh", ".toml", ".json", ".yaml", ".yml", ".cfg", ".ini", ".cpp", ".cu", ".h")
RANKS = r"\d{1,5}(?:(?:\s*(?:,|/|&|and|-|,\s*and)\s*)\d{1,5}){0,64}"
"""The pattern of a list of ranks: "0-4, 6 and 7"."""


class Prose(Record):
    """Reads one kind of sentences; ``facts`` yields what a text says.

    If there are ``words``, one of them is in every text, in lower case, that holds such sentences.
    """

    name: str
    facts: Callable[[Document], Iterator[Fact]]
    words: tuple[bytes, ...] = ()

    def sniff(self, document: Document) -> bool:
        """Return whether it is a short text that says something."""
        if document.size > LARGEST_BYTES or document.path.endswith(NO_PROSE):
            return False
        low = document.head.lower() if self.words else b""
        if self.words and not any(word in low for word in self.words):
            return False
        try:
            return any(True for _ in self.facts(document))
        except limits.TooSlowError:  # no text of a person
            return False

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what it says."""
        yield from self.facts(document)


def is_persons(line: str) -> bool:
    """Return whether a person wrote a line: one with a header, a label or a time is a program's."""
    first, *others = take_apart(line, Voice())
    return not others and first.time is None and first.who.rank is None and first.who.pid is None


def standing(
    document: Document, who: Who, frames: tuple[Frame, ...], line: int, copies: int
) -> StackDump:
    """Return that ``copies`` processes are said to stand in a place."""
    return StackDump(
        who=who if who != NOBODY else document.who,
        tool="summary",
        threads=(Thread(frames=frames, name=MAIN, line=line),),
        source=document.source(line),
        look=document.look or 0,
        taken_at=document.taken_at,
        main_only=True,
        copies=copies,
    )
