"""The last own lines of each rank: what a program says of its work, in words of its own.

Nobody knows these lines beforehand; they are kept as templates, to be compared over ranks. Those
of libraries are left out, and what stands behind the first word of trouble is no work any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import LogTail, OwnLine, Trust, Who
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.lines.signs_of_life import outlook
from whyhang.collectors.logs.text.line import Line, clean, take_apart
from whyhang.collectors.logs.text.templates import reduce

TAIL = 64 << 10  # bytes of the end of a file
MOST_LINES = 150  # of a rank that are kept
LONGEST = 1000  # characters of a line
BLOCK = 4096  # bytes in which a program that buffers its output writes

_OF_LIBRARIES = re.compile(
    r"\bNCCL (?:INFO|WARN|TRACE|VERSION)|\bNCCL version |^\W*\[?[IVW]\d{4}[ \]]|\.cpp:\d+\]"
    r"|Warning: |^\s+(?:File \"|\^|at )|^W\d{4} |torch/distributed/|^\*+$|OMP_NUM_THREADS"
    r"|^srun: |^slurmstepd: "
)
_TROUBLE = re.compile(
    r"Traceback \(most recent|\bSIG(?:TERM|KILL|ABRT|SEGV|INT|HUP)\b|Fatal Python error"
    r"|\[?[EF]\d{4} |^[\w.]*(?:Error|Exception|Interrupt|Exit)\b|[Ww]atchdog|\b[Tt]imed?[ -]?out\b"
    r"|ProcessGroup\w+\.cpp|\b[Aa]bort(?:ed|ing)\b|Segmentation fault|^Killed|\bERROR\b|CANCELLED"
    r"|[Tt]erminat(?:ed|ing)\b|core dumped"
)


def tails(data: bytes, file: LogFile, last: int, size: int) -> Iterator[LogTail]:
    """Yield the last own lines of each rank that speaks in ``data``, which ends a file.

    ``last`` is the number of the file's last line, ``size`` its length.
    """
    raw = data.rstrip(b"\n\r \t").split(b"\n")
    whole = size <= len(data)
    if not whole:
        del raw[:1]  # it may have begun before
    first = last - len(raw) + 1
    lines: dict[Who, list[OwnLine]] = {}
    over: set[Who] = set()
    for number, piece in enumerate(raw, first):
        text = clean(piece.rpartition(b"\r")[2] if b"\r" in piece.rstrip(b"\r") else piece)
        if not text.strip():
            continue
        for line in take_apart(text[:LONGEST], file.voice):
            who = _speaker(line)
            if who in over or _OF_LIBRARIES.search(line.text):
                continue
            if _TROUBLE.search(line.text):
                over.add(who)
                continue
            template, values = reduce(line.text)
            if any(letter.isalpha() for letter in template):
                lines.setdefault(who, []).append(
                    OwnLine(
                        number=number,
                        text=line.text.strip(),
                        template=template,
                        values=values,
                        time=line.time,
                    )
                )
    cut = not data.endswith(b"\n") or (size > 0 and size % BLOCK == 0)
    for who, own in lines.items():
        kept = tuple(own[-MOST_LINES:])
        yield LogTail(
            who=file.resolve(who),
            source=file.document.source(kept[-1].number),
            lines=kept,
            outlook=outlook([line.text for line in kept]),
            whole=whole and len(kept) == len(own),
            cut=cut and kept[-1].number == last and who not in over,
        )


def _speaker(line: Line) -> Who:
    """Return who speaks, without what differs from line to line of one process."""
    who = line.who
    if who.rank is not None:
        return Who(rank=who.rank, trust=max(who.trust, Trust.PREFIX))
    return Who(host=who.host, pid=who.pid, local_rank=who.local_rank, label=who.label)
