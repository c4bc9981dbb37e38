"""Values that the ranks of a job print in the same line, and that should be equal on all of them.

Nobody knows the lines of a program beforehand; a line is known by what is left of it without its
values. Kept are whole numbers and versions in lines about what ranks have to agree on, not those
that are each rank's own by nature (ranks, ports, sizes of memory, times), and not those that count
on from line to line. ``compared.toml`` has the words.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer.facts import PrintedValue, Record, Topic, Who
from whyhang.collectors import tables
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.text.line import clean
from whyhang.collectors.logs.text.logger_header import SHAPES
from whyhang.collectors.logs.text.own_rank import FORMS

READ = 32 << 10  # bytes of the beginning of a file
MOST_HITS = 200  # of each word
LONGEST = 300  # characters of a line
MOST_VALUES = 8  # of a line
MOST_STARTS = 3  # of a rank
AROUND = 40  # characters on either side that say what a value is
HEADING = 3  # lines above a table in which its heading may stand


class _Table(Record):
    topics: dict[Topic, tuple[str, ...]]
    own: dict[Literal["before", "behind", "name"], re.Pattern[str]]
    others: dict[Literal["by-design", "no-settings"], re.Pattern[str]]
    value: re.Pattern[str]
    counted: re.Pattern[str]
    alone: re.Pattern[str]
    pair: re.Pattern[str]


_TABLE = tables.patterns(__package__, "compared.toml", _Table)
_TOPICS = {word.encode(): topic for topic, words in _TABLE.topics.items() for word in words}
LEAST_PAIRS = 3


def compared(data: bytes, file: LogFile) -> Iterator[PrintedValue]:
    """Yield the values in the lines of the beginning of a file, by speaker, last told last."""
    head = data[:READ]
    values: dict[tuple[Who, str], PrintedValue | None] = {}
    starts: Counter[tuple[Who, str]] = Counter()
    for at, topic in sorted(_places(head.lower()).items()):
        end = head.find(b"\n", at)
        raw = head[at : end if end >= 0 else len(head)]
        others = _TABLE.others["no-settings" if topic == "settings" else "by-design"]
        if len(raw) > LONGEST or others.search(text := clean(raw)):
            continue
        number = head.count(b"\n", 0, at) + 1
        for row in _rows_below(head, end, file, topic, text):
            values.setdefault((row.who, row.name), row)
        for line in file.take_apart(text):
            label = FORMS.own_words.match(line.text) if file.voice.own_words else None
            text = line.text[label.end() if label else 0 :]
            settings = _settings(text) if topic == "settings" else []
            for name, value in settings or _values(text, topic):
                key = (line.who, name)
                known = values.get(key, ...)
                differs = known is None or (known is not ... and known.value != value)
                starts[key] += topic == "start"
                # Of a few starts the last one counts; more are steps of a loop, and one may be cut.
                if differs and not 0 < starts[key] <= MOST_STARTS:
                    values[key] = None  # it counts
                    continue
                values[key] = PrintedValue(
                    who=line.who,
                    source=file.document.source(number),
                    name=name,
                    value=value,
                    topic="sizes" if topic == "settings" and not settings else topic,
                    text=line.text.strip(),
                )
    uneven = {name for _, name in starts if len({n for k, n in starts.items() if k[1] == name}) > 1}
    yield from (value for value in values.values() if value and value.name not in uneven)


def _rows_below(
    head: bytes, end: int, file: LogFile, topic: Topic, heading: str
) -> Iterator[PrintedValue]:
    """Yield the values of a table whose rows begin with a rank, below what says of what it is."""
    if end < 0:
        return
    number, misses = head.count(b"\n", 0, end) + 1, 0
    for raw in head[end + 1 :].split(b"\n"):
        number += 1
        line = file.take_apart(clean(raw))[0]
        row = _TABLE.alone.match(line.text) if line.who.rank is not None else None
        if row is None:
            misses += 1
            if misses > HEADING or line.who.rank is not None:
                return
            continue
        misses = HEADING
        yield PrintedValue(
            who=line.who,
            source=file.document.source(number),
            name=heading.strip(),
            value=row["value"],
            topic=topic,
            text=f"{heading.strip()} {line.text.strip()}",
        )


def _places(low: bytes) -> dict[int, Topic]:
    """Return where lines begin in which a word stands, with their topic."""
    places: dict[int, Topic] = {}
    for word, topic in _TOPICS.items():
        at = low.find(word)
        for _ in range(MOST_HITS):
            if at < 0:
                break
            start = low.rfind(b"\n", 0, at) + 1
            places.setdefault(start, topic)
            at = low.find(word, at + len(word))
    return places


def _settings(text: str) -> list[tuple[str, str]]:
    """Return the settings that a line lists, those left out that are each rank's own by nature."""
    pairs = [(pair["name"], pair["value"]) for pair in _TABLE.pair.finditer(text)]
    shared = [pair for pair in pairs if _TABLE.own["name"].fullmatch(pair[0]) is None]
    return shared if len(pairs) >= LEAST_PAIRS else []


def _values(text: str, topic: Topic) -> Iterator[tuple[str, str]]:
    """Yield each value that ranks should share, named by the line around it."""
    text = SHAPES.time.sub("", text)
    for place, match in enumerate(_TABLE.value.finditer(text)):
        before, behind = text[: match.start()], text[match.end() :]
        dotted = "." in match[0] and topic != "version"  # a fraction, an address
        if place >= MOST_VALUES or dotted:
            continue
        if topic == "start":
            is_own = _TABLE.counted.search(before[-AROUND:]) is None
        else:
            is_own = bool(
                _TABLE.own["before"].search(before[-AROUND:]) or _TABLE.own["behind"].match(behind)
            )
        if is_own:
            continue
        # Other values on the line go; this one's place is what they leave.
        yield (
            f"{_TABLE.value.sub('#', before)[-AROUND:]}…{_TABLE.value.sub('#', behind)[:AROUND]}",
            match[0],
        )
