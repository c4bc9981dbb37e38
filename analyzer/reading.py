"""What a reader is: the one interface between files and facts.

A reader looks at a document's name and first bytes, says whether it knows the format, and
yields facts. One file may be read by several readers (a job's log with stacks in it).
"""

from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from whyhang.analyzer.facts import Fact, Gap, Record, Source, Who

HEAD_BYTES = 256 * 1024


class Document(Record):
    """One file as a reader sees it: plain bytes, whatever archive or compression it came in.

    ``path`` is the path to show in reports, relative to what the user named. ``head`` holds
    the first ``HEAD_BYTES``, or all of a recorder's dump. ``open`` gives a fresh binary stream
    from the start. ``who``, ``look`` and ``taken_at`` are what the bundle's manifest or the
    file's name says of it.
    ``local`` is its path on disk where it is a file of the user, not one of an archive.
    """

    path: str
    head: bytes
    size: int
    open: Callable[[], BinaryIO]
    who: Who
    look: int | None = None
    taken_at: float | None = None
    local: str | None = None

    def source(self, line: int | None = None) -> Source:
        """Name a line of this document (1-based)."""
        return Source(file=self.path, line=line)

    def content(self, most: int = -1) -> bytes:
        """Return its bytes, no more than ``most``. Raises what its stream raises."""
        with self.open() as stream:
            return stream.read(most)

    def gap(
        self, why: str, *, what: str = "", cost: str = "", remedy: str = "", line: int | None = None
    ) -> Gap:
        """Say what of it could not be read, all of it unless ``what`` says less."""
        what = what or f"reading {self.path}"
        return Gap(what=what, why=why, cost=cost, remedy=remedy, source=self.source(line))


class Reader(Protocol):
    """Knows one format. ``read`` never raises for bad input: what it cannot read is a Gap."""

    @property
    def name(self) -> str:
        """Name the format in a few words, for gaps and help."""

    def sniff(self, document: Document) -> bool:
        """Say whether this document holds something for this reader."""

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what the document says."""
