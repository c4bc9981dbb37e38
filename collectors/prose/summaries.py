r"""Summaries of stacks that people write by hand, when they have looked at every rank.

Two shapes. Lines that name processes and where they stand, with outer frames under them::

    DP0,3,5,7:  broadcast (torch/distributed/distributed_c10d.py:2841)
    rank 4:     __getitem__ (dataset.py:51)
                  fetch (torch/utils/data/_utils/fetch.py:54)

(``ranks [0, 2] stopped at train.py:31 in step`` says the same), and a host with the top function
of each of its processes, one to a line::

    node03
        broadcast
        all_reduce

Read only where no tool's own output is in the file. Of the second shape a function has no
file: its ``Frame.file`` is empty.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import regex

from whyhang.analyzer.facts import (
    MAX_RANKS,
    NOBODY,
    Frame,
    Record,
    StackDump,
    Thread,
    Trust,
    Who,
    unfold,
)
from whyhang.analyzer.facts.stacks import SUMMARY
from whyhang.analyzer.reading import Document
from whyhang.collectors import limits
from whyhang.collectors.files.marks import Marks
from whyhang.collectors.ops import OPERATIONS
from whyhang.collectors.stacks.frames import MAIN, frame, is_native_file, shared

LARGEST_BYTES = 256 * 1024
LONGEST_LINE = 400

_PLACE = (
    r"(?P<function>[A-Za-z_<][\w.<>]{0,200})\s*"
    r"\((?P<file>[\w./<>-]{1,200}\.(?:py|pyx|cpp|cc|cu)):(?P<line>\d{1,7})\)"
)
_NUMBERS = r"\d{1,6}(?:\s*(?:[,&-]|\.{2,3}|and)\s*(?:[A-Za-z]{0,5})?\d{1,6})*"
_LABELLED = limits.compile(
    r"^[ \t>*•-]{0,8}(?P<label>[A-Za-z0-9][^:()\n]{0,80}?|\d[^:()\n]{0,80}?)"
    r"(?:\s*[:=]\s*|\s+-+>?\s+)(?:[a-z]+ ){0,4}?`?" + _PLACE + r"`?[^\n]{0,80}$"
)
_PLACED = re.compile(rb"\.(?:py|pyx|cpp|cc|cu):\d{1,7}(?:\)| in [A-Za-z_<])")
_TURNED = re.compile(
    r"(?P<file>[\w./<>-]{1,200}\.(?:py|pyx|cpp|cc|cu)):(?P<line>\d{1,7}) in "
    r"(?P<function>[A-Za-z_<][\w.<>]{0,200})"
)
_STOPPED = re.compile(r"^(\s*ranks?) *\[(\d[\d, -]{0,200})\] +(?:[a-z]+ ){0,3}at ", re.IGNORECASE)
_OUTER = limits.compile(r"^[ \t>`]*(?:<-|←|from|at|via)?\s*" + _PLACE + r"`?\s*$")
_WHOM = limits.compile(
    rf"^(?:(?P<copies>\d{{1,6}})\s*x?\s*(?:processes|procs|ranks|workers|gpus)"
    rf"|(?:all |other |the )*(?P<kind>global ranks?|local[_ ]ranks?|ranks?|gpus?|dp|tp|pp|ep|cp|r)?"
    rf"[ _#=]*(?P<numbers>{_NUMBERS}))\s*(?:\([^)]*\))?$",
    re.IGNORECASE,
)
_TOOLS = (b'): "', b"most recent call", b"\nThread ", b"#0  ", b'File "')

_WORD = re.compile(r"[ \t]+([A-Za-z_]\w*)[ \t]*$")


_SOURCES = (b".py:", b".pyx:", b".cpp:", b".cc:", b".cu:")
_MARKS = Marks(*_TOOLS, *_SOURCES, *(name.encode() for name in sorted(OPERATIONS)))
"""Most logs hold none of these: looking at each of their lines would take longer than all else."""


def summaries(document: Document) -> Iterator[StackDump]:
    """Yield where each rank stands by a person's summary."""
    if document.size > LARGEST_BYTES:
        return
    marks = _MARKS.within(document.head)
    if not marks or not marks.isdisjoint(_TOOLS):
        return
    written = document.head.decode("utf-8", "replace").split("\n")
    lines = ["" if len(line) > LONGEST_LINE else _usual(line) for line in written]
    if _is_list_of_tops(lines):
        yield from _tops(document, lines)
    elif not marks.isdisjoint(_SOURCES) and _PLACED.search(document.head):
        yield from _labelled(document, lines)


def _usual(line: str) -> str:
    """Write a line as most people do: whom, a colon, the function, its place in brackets."""
    line = line.expandtabs()
    if " in " not in line:
        return line
    return _STOPPED.sub(r"\1 \2: ", _TURNED.sub(r"\g<function> (\g<file>:\g<line>)", line))


Label: TypeAlias = "regex.Match[str] | None"


class _Entry(Record):
    """One line of a summary: whom it names and the frames, innermost first."""

    label: str
    line: int
    frames: tuple[Frame, ...]


def _labelled(document: Document, lines: Sequence[str]) -> Iterator[StackDump]:
    entries = list(_entries(lines))
    labels = [_WHOM.match(entry.label) for entry in entries]
    numbers = _numbers(labels)
    counts_ranks = _counts_from_zero(labels, numbers)
    for entry, label, own in zip(entries, labels, numbers, strict=True):
        copies = int(label["copies"] or 1) if label else 1
        for who in _whom(label, own, counts_ranks=counts_ranks) or [Who(label=entry.label)]:
            yield standing(document, who, entry.frames, entry.line, max(1, copies))


def _entries(lines: Sequence[str]) -> Iterator[_Entry]:
    label, start = "", 0
    frames: list[Frame] = []
    for number, line in enumerate([*lines, ""], 1):
        outer = _OUTER.match(line)
        if outer and frames:
            frames.append(_frame(outer))
            continue
        if frames:
            yield _Entry(label=label, line=start, frames=shared(tuple(frames)))
            frames = []
        if not outer and (labelled := _LABELLED.match(line)):
            label, start, frames = labelled["label"].strip(), number, [_frame(labelled)]


def _frame(place: regex.Match[str]) -> Frame:
    native = is_native_file(place["file"])
    return frame(place["function"], place["file"], int(place["line"]), native=native)


def _numbers(labels: Sequence[Label]) -> list[tuple[int, ...]]:
    """Spell out the numbers of each label. Raises ``TooSlowError`` for more than any job has."""
    spelled: list[tuple[int, ...]] = []
    left = MAX_RANKS
    for label in labels:
        text = (label["numbers"] if label else None) or ""
        spelled.append(unfold(re.sub(r"[A-Za-z]+", " ", text)))
        left -= len(spelled[-1])
        if left < 0:
            raise limits.TooSlowError(text)
    return spelled


def _counts_from_zero(labels: Sequence[Label], numbers: Sequence[tuple[int, ...]]) -> bool:
    """Tell a summary that names DP0 to DP7 once each: the place in the mesh is then the rank."""
    kinds = {(label["kind"] or "").lower() if label else "" for label in labels}
    counted = sorted(number for own in numbers for number in own)
    is_complete = all(numbers) and len(counted) > 1 and counted == list(range(len(counted)))
    return is_complete and len(kinds) == 1


def _whom(label: Label, numbers: Sequence[int], *, counts_ranks: bool) -> list[Who]:
    """Read "DP0,3,5,7", "ranks 0-6", "gpu 3"; nobody for "6 processes" and "node48"."""
    kind = ((label["kind"] if label else None) or "").lower().replace("_", " ")
    singular = kind.removesuffix("s")
    if singular in ("rank", "global rank", "r") or (not kind and counts_ranks):
        return [Who(rank=number, trust=Trust.CONTENT) for number in numbers]
    if singular in ("gpu", "local rank"):
        return [Who(local_rank=number, label=f"{singular} {number}") for number in numbers]
    named = [Who(rank=n, trust=Trust.INFERRED, label=f"{kind.upper()}{n}") for n in numbers]
    return named if counts_ranks else [Who(label=who.label) for who in named]


def _is_list_of_tops(lines: Sequence[str]) -> bool:
    """Tell a host or heading followed by indented function names, and nothing else."""
    if any(len(line.split(None, 5)) > 4 for line in lines):  # soon so in a log
        return False
    words = [word for line in lines if (word := _function(line))]
    heads = [line for line in lines if line.strip() and not _function(line)]
    if len(words) < 2 or not heads or lines[0][:1].isspace():
        return False
    is_plain = all(not head[:1].isspace() for head in heads)
    return is_plain and 2 * sum(word in OPERATIONS for word in words) >= len(words)


def _tops(document: Document, lines: Sequence[str]) -> Iterator[StackDump]:
    """Fold the processes of one host that stand at the same function, in a row, into one."""
    host = ""
    last = 0  # process of this host
    for function, run in itertools.groupby(enumerate(lines, 1), lambda line: _function(line[1])):
        numbers, texts = zip(*run, strict=True)
        if function is None:
            for text in filter(str.strip, texts):
                host, last = text.strip().rstrip(":"), 0
            continue
        first, last = last + 1, last + len(numbers)
        which = f"process {first}" if first == last else f"processes {first}-{last}"
        frames = shared((frame(function, ""),))
        yield standing(document, Who(host=host, label=which), frames, numbers[0], len(numbers))


def _function(line: str) -> str | None:
    """Return the function that an indented line names, and nothing else."""
    word = _WORD.match(line)
    return word[1] if word else None


def standing(
    document: Document, who: Who, frames: tuple[Frame, ...], line: int, copies: int
) -> StackDump:
    """Return that ``copies`` processes are said to stand in a place."""
    return StackDump(
        who=who if who != NOBODY else document.who,
        tool=SUMMARY,
        threads=(Thread(frames=frames, name=MAIN, line=line),),
        source=document.source(line),
        look=document.look or 0,
        taken_at=document.taken_at,
        main_only=True,
        copies=copies,
    )
