"""How a log ends: its last line, whose it is, signs of life, the last own lines of each rank.

A process that was killed says nothing, and its log just stops.

Nobody knows the last own lines beforehand: what a program says of its work, in words of its own.
They are kept as templates, to be compared over ranks. Those of libraries are left out, and what
stands behind the first word of trouble is no work any more.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from whyhang.analyzer.facts import (
    NOBODY,
    LastLine,
    LogTail,
    OwnLine,
    Record,
    SignOfLife,
    Statement,
    TrainingOutput,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.facts.progress import ENDED_WELL
from whyhang.collectors import tables
from whyhang.collectors.logs.lines.line_reader import MAX_TEXT, LogFile
from whyhang.collectors.logs.lines.signs_of_life import (
    count_of_bar,
    is_of_training,
    last_sign,
    outlook,
    sign,
)
from whyhang.collectors.logs.text.line import Line, clean
from whyhang.collectors.logs.text.logger_header import behind, header, reduce
from whyhang.collectors.logs.text.own_rank import behind_own_label, last_state

LAST = 1000  # bytes of the end of a file that its last line is taken from
HEAD = 32 << 10  # bytes of its beginning in which a sign of life is looked for
TAIL = 64 << 10  # bytes of the end of a file
LINES_OF_ONE, LINES_OF_ALL = 100, 600  # that are taken apart, in a log of one rank or of several
MOST_LINES = 100  # of a rank that are kept
LONGEST = 1000  # characters of a line
USUAL = 3  # times that a rank has said something with a number, which is then its usual work
BLOCK = 4096  # bytes in which a program that buffers its output writes


class _Words(Record):
    of_libraries: re.Pattern[str]
    trouble: re.Pattern[str]
    gives_up: re.Pattern[str]
    started: re.Pattern[bytes]


_WORDS = tables.patterns(__package__, "ending.toml", _Words)

_AT_EXIT = "destroy_process_group() was not called before program exit"
"""What c10d says as a process ends, of its own."""

_FAILED = "worker group finished (FAILED)"
"""What torchrun's agent says before it waits for other agents, as it does behind a planned end."""

_SUCCEEDED = "worker group successfully finished"
"""What it says behind a planned end."""


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
    if lines and is_of_training(text):
        yield TrainingOutput(who=who, source=source)
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


def tails(data: bytes, file: LogFile, last: int, size: int) -> Iterator[LogTail]:
    """Yield the last own lines of each rank that speaks in ``data``, which ends a file.

    ``last`` is the number of the file's last line, ``size`` its length.
    """
    whole = size <= len(data)
    raw = data.rstrip(b"\n\r \t").split(b"\n")
    if not whole:
        del raw[:1]  # it may have begun before
    started = (n for n in range(len(raw) - 1, -1, -1) if _WORDS.started.match(raw[n]))
    raw = raw[next(started, 0) :]  # what an earlier command printed is of another job
    most = LINES_OF_ONE if file.document.who.rank is not None else LINES_OF_ALL
    whole = whole and len(raw) <= most
    raw = raw[-most:]
    lines: dict[Who, list[OwnLine]] = {}
    over: dict[Who, tuple[int, OwnLine]] = {}  # the first word of trouble, behind how many lines
    bars: dict[Who, tuple[str, ...] | None] = {}  # how far the last one had come
    failed = False  # as torchrun's agent says of all that it started
    nameless = -1  # line of the last word of trouble that nobody's label claims
    for number, line in _lines_of_program(raw, last - len(raw) + 1, file):
        who = _speaker(line)
        own = lines.setdefault(who, [])
        if _WORDS.trouble.search(line.text) and _AT_EXIT not in line.text:
            trouble = OwnLine(number=number, text=line.text.strip(), template="", time=line.time)
            over.setdefault(who, (len(own), trouble))
            nameless = number if who == NOBODY else nameless
            continue
        count = count_of_bar(line.text)
        redrawn = count is not None and count == bars.get(who)
        bars[who] = count or bars.get(who)
        if redrawn:
            continue
        failed = failed or _FAILED in line.text
        message = file.voice.message(line.text).strip()
        message = behind_own_label(message, who, file.voice.names)
        template, values = reduce(message)
        if who in over and not failed:
            before = own[: over[who][0]]
            counts = bool(values) and sum(each.template == template for each in before) >= USUAL
            if counts or sign(line.text) or ENDED_WELL.search(line.text):
                del over[who]  # it got over it
        if any(letter.isalpha() for letter in template):
            text, time = message, line.time
            own.append(
                OwnLine(number=number, text=text, template=template, values=values, time=time)
            )
    words = header([line.text for own in lines.values() for line in own])
    cut = not data.endswith(b"\n") or (size > 0 and size % BLOCK == 0) or _begins(lines, last)
    # Lines in which each who speaks prints one or two; what is left of the last one names nobody.
    near = max(1, 2 * (len(lines) - 1))
    for who, printed in lines.items():
        at_work, first_trouble = over.get(who, (None, None))
        own = printed[:at_work]
        kept = tuple(replace(line, text=behind(line.text, words)) for line in own[-MOST_LINES:])
        if not kept:
            continue
        shown, decisive = outlook([line.text for line in kept])
        yield LogTail(
            who=file.resolve(who),
            source=file.document.source(kept[-1].number),
            lines=kept,
            outlook=shown,
            decisive=decisive,
            whole=whole and len(kept) == len(own),
            cut=cut and last - kept[-1].number <= near and first_trouble is None,
            trouble=first_trouble,
            troubled=nameless > kept[-1].number,
        )


def _begins(lines: Mapping[Who, Sequence[OwnLine]], last: int) -> bool:
    """Return whether the last line is the beginning of another, as where a paste ends.

    One that differs in the last digits of a number is a line of its own.
    """
    printed = [line for own in lines.values() for line in own]
    ends = [line.text for line in printed if line.number == last]
    return any(
        line.text.startswith(text) and line.text != text and not line.text[len(text) :].isdigit()
        for text in ends
        for line in printed
    )


def _lines_of_program(raw: list[bytes], first: int, file: LogFile) -> Iterator[tuple[int, Line]]:
    """Yield the lines that are not those of libraries, with their numbers."""
    for number, piece in enumerate(raw, first):
        if b"NCCL INFO" in piece:
            continue
        text = last_state(clean(piece))
        for line in file.take_apart(text[:LONGEST]) if text else ():
            of_library = _WORDS.of_libraries.search(line.text)
            of_end = any(words in line.text for words in (_AT_EXIT, _FAILED, _SUCCEEDED))
            of_end = of_end or ENDED_WELL.search(line.text) is not None
            if not of_library or _WORDS.gives_up.match(line.text) or of_end:
                yield number, line


def _speaker(line: Line) -> Who:
    """Return who speaks, without what differs from line to line of one process."""
    who = line.who
    if who.rank is not None:
        trust = max(who.trust, Trust.PREFIX)
        return Who(rank=who.rank, trust=trust, local_rank=who.local_rank)
    return Who(host=who.host, pid=who.pid, local_rank=who.local_rank, label=who.label)
