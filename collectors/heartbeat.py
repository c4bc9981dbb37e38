"""What ``whyhang.heartbeat`` wrote: the step of each rank, a line of text for each.

The line is described where it is written, in ``whyhang._heartbeat``. A file holds one, or many.
"""

from collections.abc import Iterator

import msgspec

from whyhang._heartbeat import MARK, SIZE
from whyhang.analyzer.facts import Fact, Gap, Progressed, Record, Trust, Who, WorldSize
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits

MAX_BYTES = 8 << 20
_LINE = limits.compile(
    rf"{MARK}rank (?P<rank>-|\d{{1,9}}) of (?P<world>-|\d{{1,9}}) pid (?P<pid>\d{{1,9}}) "
    r"step (?P<step>-?\d{1,18}) beats (?P<beats>\d{1,18}) longest (?P<longest>\d{1,12}\.\d{3}) "
    r"time (?P<time>\d{1,12}\.\d{3}) host (?P<host>\S{1,64}) *+"
)


class Beat(Record):
    """One line: who wrote it, and what it says."""

    pid: int
    step: int
    beats: int
    longest: float
    time: float
    host: str
    rank: int | None = None
    world: int | None = None


def parse(text: str) -> Beat | None:
    """Read one line; None where it is none."""
    match = _LINE.fullmatch(text.rstrip("\n"))
    if match is None:
        return None
    fields = {name: text for name, text in match.groupdict().items() if text != "-"}
    return msgspec.convert(fields, Beat, strict=False)


class HeartbeatReader:
    """Reads the files of ``whyhang.heartbeat``."""

    name = "heartbeats of ranks"

    def sniff(self, document: Document) -> bool:
        """Return whether it begins as such a line does."""
        return document.head.startswith(MARK.encode())

    owns = sniff  # nothing in it is for any other reader

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield the step of each rank, and the world size."""
        lines = document.content(MAX_BYTES).decode("utf-8", "replace").splitlines()
        for number, text in enumerate(lines, 1):
            source, beat = document.source(number), parse(text)
            if beat is None:
                yield Gap(
                    what=f"the heartbeat in {source}",
                    why=f"it is no line of {SIZE} bytes as whyhang.heartbeat writes it",
                    cost="in which step this rank was last is not known",
                )
                continue
            trust = Trust.NONE if beat.rank is None else Trust.CONTENT
            who = Who(rank=beat.rank, trust=trust, host=beat.host, pid=beat.pid)
            yield Progressed(
                who=who,
                source=source,
                step=beat.step,
                time=beat.time,
                beats=beat.beats,
                longest=beat.longest,
                read_at=document.taken_at,
            )
            if beat.world is not None:
                yield WorldSize(size=beat.world, who=who, source=source)
