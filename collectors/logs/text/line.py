"""The anatomy of a log line: who says it, when, and what is left without the wrapping.

From the outside in: what a container runtime or journal puts in front, the prefixes of launchers
(``prefix.py``), then the header of the program that logs (torch's C++ and Python loggers, NCCL's
``host:pid:tid``), which stays part of the text and only tells time and process.
"""

import re

import msgspec

from whyhang.analyzer.facts import NOBODY, Record, Trust, Who, replace
from whyhang.collectors import tables
from whyhang.collectors.files.naming import join
from whyhang.collectors.logs.text.clock import time_in_object, time_of
from whyhang.collectors.logs.text.logger_header import header_end
from whyhang.collectors.logs.text.own_rank import (
    FORMS,
    rank_in_content,
    rank_in_own_words,
    rank_in_statement,
)
from whyhang.collectors.logs.text.pasted import NO_MARGIN, has_clock
from whyhang.collectors.logs.text.prefix import LABELS, in_one_piece, split_prefix

MOST_PARTS = 64
"""Lines that are looked for in one: more ranks do not write into one line at one time."""


class _Around(Record):
    ansi: re.Pattern[str]
    docker: re.Pattern[str]
    outer_prefix: re.Pattern[str]
    clock: re.Pattern[str]
    envelope: re.Pattern[str]
    native_header: re.Pattern[str]
    python_header: re.Pattern[str]
    npu_header: re.Pattern[str]
    in_group: re.Pattern[str]
    mesh_label: re.Pattern[str]
    torchrun_words: re.Pattern[str]
    glued: re.Pattern[str]
    glued_clock: re.Pattern[str]
    several: re.Pattern[str]
    indented: re.Pattern[str]
    messages: tuple[str, ...]
    stacks: tuple[str, ...]
    ranks: tuple[str, ...]
    of_header: frozenset[str]


AROUND = tables.patterns(__package__, "line.toml", _Around)

_OF_HEADER = AROUND.of_header.union(AROUND.messages, AROUND.stacks, AROUND.ranks)
_NUMBER = re.compile(r"\d")
ENGINE_LABEL = "(EngineCore_"  # of vLLM, whose workers are the ranks
_BLANKS = (" ", "\t", ">")


class Line(Record):
    """One line without its wrapping, and whose it is."""

    who: Who
    text: str
    time: float | None = None
    prefix: Who = NOBODY  # what its launcher prefix alone says


class Voice(Record):
    """What holds for all lines of one file.

    ``who`` is what the file's name says, ``numbered``: each line begins with a task number
    ("3: "), and ``ranks_by_number``: that number is a rank. ``by_host``: it begins with a host.
    ``own_words``: lines of the program itself begin with a rank, ``index``: with its number in
    this form, of so many (``size``); ``names``: with a name of which a line says the rank;
    ``services``: the numbers of docker compose's services are ranks. ``year`` is for times without
    one. ``margin`` stands in front of every line, ``logger`` is the name that stands bare behind
    the headers of a logger. ``speakers`` are those whose labels its first lines have, where the
    file is not one rank's.
    """

    who: Who = NOBODY
    numbered: bool = False
    ranks_by_number: bool = True
    by_host: bool = False
    own_words: bool = False
    index: re.Pattern[str] | None = None
    size: int | None = None
    statements: frozenset[str] = frozenset()
    names: dict[str, int] = {}
    services: bool = False
    year: int | None = None
    margin: re.Pattern[str] = NO_MARGIN
    logger: str = ""
    speakers: tuple[Who, ...] = ()

    def message(self, text: str) -> str:
        """Return a line without the header of a logger; its margin may have had the time."""
        return text[header_end(text, self.logger, timed=has_clock(self.margin)) :]


def clean(raw: bytes) -> str:
    """Decode whatever a log holds, without colours, NUL bytes and tags in its middle."""
    text = raw.decode("utf-8", "replace")
    if "\0" in text:
        text = text.replace("\0", "")
    if "\x1b" in text:
        text = AROUND.ansi.sub("", text)
    return in_one_piece(text)


def unwrap(text: str) -> str:
    """Take a line out of Docker's JSON log, or out of the object a log service made of it."""
    if not text.startswith('{"'):
        return text
    match = AROUND.docker.match(text)
    if match is None:
        return _message(text)
    try:
        inner = msgspec.json.decode(f'"{match["log"]}"'.encode(), type=str)
    except msgspec.DecodeError:
        return text
    return clean(inner.encode()).rstrip("\n")


def _message(text: str) -> str:
    """Return what an object of one line says, if it is one and says something.

    A rank that it names stands in front of each line of the message, a stack behind it.
    """
    try:
        content = msgspec.json.decode(text.rstrip().encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text
    if not isinstance(content, dict):
        return text
    message = next(
        (content[key] for key in AROUND.messages if isinstance(content.get(key), str)), None
    )
    stack = next((content[key] for key in AROUND.stacks if isinstance(content.get(key), str)), None)
    if message is None and stack is None:
        return text
    message = "\n".join(part.rstrip("\n") for part in (message, stack) if part)
    if message is not None and (content.get("event") == message or not _NUMBER.search(message)):
        # What it counts stands in fields, as those of structlog do.
        message = " ".join([message, *(f"{k}={v}" for k, v in content.items() if _tells(k, v))])
    rank = next((content[key] for key in AROUND.ranks if type(content.get(key)) is int), None)
    if rank is not None:
        message = f"[rank{rank}]: " + message.replace("\n", f"\n[rank{rank}]: ")
    return clean(message.encode("utf-8", "replace"))


def _tells(key: str, value: object) -> bool:
    """Return whether a field of an object is of its message, not of its header."""
    return isinstance(value, str | int | float) and key not in _OF_HEADER


def take_apart(text: str, voice: Voice) -> list[Line]:
    """Take a cleaned line apart: one ``Line``, or several where lines were glued together.

    A service that keeps a message of several lines in one object had several lines as well.
    """
    inner = unwrap(text)
    lines = (each for line in inner.split("\n") for each in _of_each_rank(line))
    return [part for line in lines for part in _lines_of(line, text, voice)]


def _of_each_rank(text: str) -> list[str]:
    """Return a line that a person wrote for several ranks as each of them has it: "[Rank 1-7]"."""
    label = AROUND.several.match(text) if text.startswith("[") else None
    if label is None:
        return [text]
    first, last = int(label["first"]), int(label["last"])
    if not first < last < first + MOST_PARTS:
        return [text]
    rest = text[label.end() :]
    return [f"{label['open']}{rank}]{rest}" for rank in range(first, last + 1)]


def _lines_of(text: str, wrapped: str, voice: Voice) -> list[Line]:
    time = time_of(text, voice.year)
    if time is None and wrapped is not text:
        time = time_in_object(wrapped, voice.year)
    if margin := voice.margin.match(text):
        text = text[margin.end() :]
    outer = AROUND.outer_prefix.match(text)
    end = outer.end() if outer is not None else 0
    around = _around(outer, voice) if outer is not None and end else NOBODY
    who, rest = speaker_and_rest(text[end:], voice)
    lines = []
    for part_who, part in _parts(who, rest):
        own = time_of(part, voice.year)
        lines.append(_line(part_who, part, time if own is None else own, around, voice))
    return lines


def speaker_and_rest(text: str, voice: Voice) -> tuple[Who, str]:
    """Split the launcher's prefix off, also one behind a time stamp."""
    if text[:1] in _BLANKS and (blanks := AROUND.indented.match(text)):
        text = text[blanks.end() :]
    who, rest = split_prefix(text, numbered=voice.numbered)
    if who is NOBODY and voice.by_host and (label := LABELS.of_host.match(text)):
        inner, rest = split_prefix(text[label.end() :])
        return join(inner, Who(host=label["host"], label=label["host"])), rest
    if who is NOBODY and (clock := AROUND.clock.match(text)):
        who, rest = split_prefix(text[clock.end() :], numbered=voice.numbered)
        if who is NOBODY:
            return who, text
    if voice.numbered and not voice.ranks_by_number and who.rank is not None:
        inner, _ = split_prefix(text.lstrip(" 0123456789:"))
        if inner.rank is None:
            who = replace(who, rank=None, trust=Trust.NONE, label=f"task {who.rank}")
    if FORMS.c10d_rank.match(text[: len(text) - len(rest)] + rest):
        return replace(who, trust=Trust.INFERRED), rest
    return who, rest


def _parts(who: Who, text: str) -> list[tuple[Who, str]]:
    """Part lines that were written into each other: a prefix in the middle begins a new one."""
    clocks = {match.start() for match in AROUND.glued_clock.finditer(text)}
    if not clocks and "[rank" not in text and "NCCL" not in text and "]<std" not in text:
        return [(who, text)]
    begun = len(text) - len(text.lstrip("0123456789"))  # digits of a host's own name
    glued = {match.start() for match in AROUND.glued.finditer(text)} - {0, begun}
    cuts = sorted(glued | clocks)[:MOST_PARTS]
    if not cuts or (len(cuts) == 1 and not text[: cuts[0]].strip(" []:")):
        return [(who, text)]
    parts = [(who, text[: cuts[0]])]
    for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True):
        piece_who, piece = split_prefix(text[start:end])
        if piece_who is NOBODY and start not in clocks and not _is_of_another(piece, text):
            piece_who = who
        parts.append((piece_who, piece))
    return parts


def _is_of_another(piece: str, text: str) -> bool:
    """Return whether a piece of a line is of another process than the line's first words."""
    first, own = AROUND.envelope.match(text), AROUND.envelope.match(piece)
    if first is None or own is None:
        return False
    return first.group("host", "pid") != own.group("host", "pid")


def _line(prefix: Who, text: str, time: float | None, around: Who, voice: Voice) -> Line:
    own = NOBODY
    if match := AROUND.envelope.search(text) or AROUND.native_header.match(text):
        own = Who(host=match["host"], pid=int(match["pid"]))
    elif match := AROUND.python_header.match(text) or AROUND.npu_header.search(text):
        own = Who(pid=int(match["pid"]))
    elif match := AROUND.mesh_label.match(text):
        own = Who(label=match["label"].strip())
    elif prefix is NOBODY and (match := AROUND.in_group.search(text)):
        own = Who(label=f"PG rank {match['rank']}")
    who = join(prefix, own, around, voice.who)
    if who.rank is None:
        who = join(who, rank_in_content(text))
    if who.rank is None:
        who = join(who, _rank_in_message(voice.message(text), voice))
    return Line(who=who, text=text.rstrip(), time=time, prefix=prefix)


def _rank_in_message(message: str, voice: Voice) -> Who:
    """Read the rank that a program's own message begins with, or tells as the whole file shows."""
    label = label_of_message(message)
    if label is not NOBODY:
        return label
    if voice.own_words and (own := rank_in_own_words(message)) is not None:
        return Who(rank=own, trust=Trust.INFERRED)
    if voice.index is not None and (index := voice.index.match(message)):
        return Who(rank=int(index["rank"]), trust=Trust.INFERRED)
    if voice.names and (name := FORMS.name.match(message)) and name["name"] in voice.names:
        return Who(rank=voice.names[name["name"]], trust=Trust.INFERRED)
    rank, _, statement = rank_in_statement(message) if voice.statements else (0, "", "")
    if statement and statement in voice.statements:
        return Who(rank=rank, trust=Trust.INFERRED)
    return NOBODY


def label_of_message(message: str) -> Who:
    """Return whom the label in front of a message names; that of c10d numbers within a group."""
    return NOBODY if FORMS.c10d_rank.match(message) else split_prefix(message)[0]


def _around(outer: re.Match[str], voice: Voice) -> Who:
    if voice.services and outer["service"]:
        rank = int(outer["service"].rpartition("-")[2])
        return Who(rank=rank, trust=Trust.INFERRED, label=outer["service"])
    host = outer["host"] or outer["host2"]
    if host is None:
        return Who(label=outer["service"]) if outer["service"] else NOBODY
    return Who(host=host.partition(".")[0])
