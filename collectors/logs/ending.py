"""How a log ends: its last line, whose it is, signs of life, the last own lines of each rank.

A process that was killed says nothing, and its log just stops.
"""

from collections.abc import Collection, Iterator, Sequence

from whyhang.analyzer.facts import (
    LastLine,
    LogTail,
    SignOfLife,
    Statement,
    TrainingOutput,
    Who,
)
from whyhang.collectors.logs.lines.line_reader import MAX_TEXT, LogFile
from whyhang.collectors.logs.lines.signs_of_life import last_sign, program, sign
from whyhang.collectors.logs.tail import tails
from whyhang.collectors.logs.text.line import clean

LAST = 1000  # bytes of the end of a file that its last line is taken from
HEAD = 32 << 10  # bytes of its beginning in which a sign of life is looked for


def ending(
    data: bytes, file: LogFile, last: int | None, size: int, spoken: Collection[int]
) -> Iterator[Statement]:
    """Yield what the end of a log, ``data``, says.

    ``last`` is the number of its last line, None where it could not be read so far; ``size`` its
    length in bytes; ``spoken`` are the ranks that speak in its beginning.
    """
    tail = clean(data[-LAST:])
    lines = tail.strip().splitlines()
    own: tuple[LogTail, ...] = ()
    if last is not None:  # without the empty ones behind it
        last -= tail[len(tail.rstrip()) :].count("\n")
    if last is not None and lines:
        own = tuple(tails(data, file, last, size))
        yield LastLine(
            text=lines[-1][:MAX_TEXT],
            ends_log=True,
            cut=not data.endswith(b"\n"),
            time=file.take_apart(lines[-1][:MAX_TEXT])[-1].time,
            who=_only_speaker(own, lines, file, spoken),
            source=file.document.source(last),
        )
    text = tail + "\n" + clean(bytes(file.document.head[:HEAD]))
    who, source = file.voice.who, file.document.source()
    if lines and (output := sign(text)) is not None:
        yield _last_sign(output, data, file, last) or SignOfLife(
            text=output, who=who, source=source
        )
    if lines and (output := program(text)) is not None:
        yield TrainingOutput(text=output, who=who, source=source)
    yield from own


def _only_speaker(
    own: Sequence[LogTail], lines: Sequence[str], file: LogFile, spoken: Collection[int]
) -> Who:
    """Return whose log this is: whom its name tells, or the one rank whose lines it holds."""
    named = file.voice.who
    ranks = {tail.who.rank for tail in own} | {*spoken}
    if named.rank is None and named.local_rank is None and len(own) == len(ranks) == 1:
        ranks |= {file.take_apart(line)[-1].who.rank for line in lines} - {None}
        if len(ranks) == 1:
            return own[0].who
    return named


def _last_sign(text: str, data: bytes, file: LogFile, last: int | None) -> SignOfLife | None:
    """Return the last sign of life at the end of the file, else in its beginning, and whose it is.

    What NCCL destroys in the beginning is not the work of the job.
    """
    end = [
        clean(line.rstrip(b"\r").rpartition(b"\r")[2])
        for line in data[-LAST:].rstrip().split(b"\n")
    ]
    head = clean(bytes(file.document.head[:HEAD])).split("\n")
    lines, first = end, (last or 0) - len(end)
    at = None if last is None else last_sign(end, above=clean(data[:-LAST]))
    if at is None:
        lines, first, at = head, 0, last_sign(head, without="NCCL ")
    if at is None:
        return None
    who = file.take_apart(lines[at])[-1].who
    return SignOfLife(text=text, who=who, source=file.document.source(max(1, first + at + 1)))
