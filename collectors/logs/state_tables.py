"""Tables in which a program lists its ranks and what each does: who stands out among them.

A supervisor that asks all ranks prints a row for each ("7  cn02  4409  RADIATION  00:31:22"), below
a head or without one. Where most do one thing, which is a wait or is as it should be, the few that
do not stand out; so do those whose counter is behind, that were last seen long ago, or whose own
work takes longer than the others', who are alike. Of two
tables the last one counts, and nothing where the counters went on between them.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median_high
from typing import Literal

from whyhang.analyzer.facts import Account, Deed, Record, SignOfLife, Trust, Who
from whyhang.collectors import limits, tables
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.lines.signs_of_life import sign
from whyhang.collectors.logs.text.line import clean
from whyhang.collectors.logs.text.logger_header import reduce
from whyhang.collectors.ops import OPERATIONS, op_of

LEAST = 3  # rows
FEW = 4  # one row in so many may stand out, or one
LONGEST = 300  # characters of a row
LONG_AGO = 30.0  # seconds since a rank was seen
FAR = 10.0  # times as long as the others
SLOW = 1.3  # times as long at work
ALIKE = 0.15  # share by which those differ who are not slow

Pattern = limits.Pattern[str]
_Kind = Literal["state", "count", "last-seen", "work"]


class _Words(Record):
    heads: dict[_Kind | Literal["ends"], Pattern]
    cells: dict[Literal["waits", "well", "over", "not-well", "nothing", "no", "yes"], Pattern]
    ruler: Pattern
    gaps: tuple[re.Pattern[str], ...]
    ranks: Pattern
    rank: Pattern
    row: Pattern
    field: Pattern
    seconds: Pattern


@functools.cache
def _words() -> _Words:
    return tables.patterns(__package__, "state_tables.toml", _Words, re.IGNORECASE)


class _Row(Record):
    rank: int
    cells: tuple[str, ...]
    text: str
    number: int


class _Table(Record):
    heads: tuple[str, ...]
    rows: tuple[_Row, ...]

    def column(self, at: int) -> dict[int, str]:
        """Return the cells of one column, by rank."""
        return {row.rank: row.cells[at] for row in self.rows}


def state_tables(data: bytes, file: LogFile, last: int | None) -> Iterator[Account | SignOfLife]:
    """Yield who stands out in the last table at the end of a file, or that its counters go on.

    ``last`` is the number of the file's last line.
    """
    if last is None:
        return
    lines = clean(data).split("\n")
    first = last - len(lines) + 1
    texts = [line[:LONGEST] for line in lines]
    texts = [file.voice.message(text).strip() for text in texts]
    listed = [table for table in _tables(texts, first) if len(table.rows) >= LEAST]
    if not listed:
        return
    table = listed[-1]
    if _goes_on(texts[table.rows[-1].number - first + 1 :]):
        return
    if _move(listed):
        row = table.rows[0]
        source = file.document.source(row.number)
        yield SignOfLife(text=row.text, who=file.voice.who, source=source)
        return
    odd = _standing_out(table)
    before = [other for other in listed[-2:-1] if other.heads == table.heads]
    if odd is None or any(_standing_out(other) not in {None, odd} for other in before):
        return  # who stands out changes: it moves
    deed, ranks = odd
    for row in table.rows:
        if deed is Deed.SLOW and row.rank not in ranks:
            continue
        yield Account(
            who=Who(rank=row.rank, trust=Trust.CONTENT),
            source=file.document.source(row.number),
            deed=deed if row.rank in ranks else Deed.WAITS,
            text=" ".join(row.text.split()),
        )


def _tables(texts: Sequence[str], first: int) -> Iterator[_Table]:
    """Yield the tables of a text: below a head that names ranks, or rows that name them."""
    at = 0
    while at < len(texts):
        table, end = _below_head(texts, at, first)
        if table is None:
            table, end = _of_fields(texts, at, first)
        if table is not None:
            yield table
        at = max(at + 1, end)


def _below_head(texts: Sequence[str], at: int, first: int) -> tuple[_Table | None, int]:
    for gap in _words().gaps:
        heads = tuple(gap.split(texts[at].strip("| ")))
        place = next((n for n, head in enumerate(heads) if _words().ranks.fullmatch(head)), None)
        if place is None or len(heads) < 2:
            continue
        rows: list[_Row] = []
        end = at + 1
        while end < len(texts):
            cells = tuple(gap.split(texts[end].strip("| ")))
            rank = _words().rank.fullmatch(cells[place]) if len(cells) == len(heads) else None
            if rank is not None:
                rows.append(
                    _Row(rank=int(rank["rank"]), cells=cells, text=texts[end], number=first + end)
                )
            elif rows or _words().ruler.match(texts[end]) is None:
                break
            end += 1
        numbers = {row.rank for row in rows}
        counted = heads[place].lower() != "id" or numbers == set(range(len(rows)))
        if counted and len(rows) == len(numbers) >= LEAST:
            return _Table(heads=heads, rows=tuple(rows)), end
    return None, at


def _of_fields(texts: Sequence[str], at: int, first: int) -> tuple[_Table | None, int]:
    """Read rows without a head: "rank 3: state=WAIT step=12", each of another rank.

    One word of each rank is a table below a line that announces it: "rank 3: WAITING".
    """
    rows: list[_Row] = []
    heads: tuple[str, ...] = ()
    end = at
    while end < len(texts) and (row := _words().row.match(texts[end])):
        words = row["rest"].split()
        fields = [_words().field.fullmatch(word.rstrip(",;")) for word in words]
        names = tuple(field["name"] if field else "" for field in fields)
        rank = int(row["rank"])
        if (rows and names != heads) or rank in {each.rank for each in rows}:
            break
        cells = [f["value"] if f else w for f, w in zip(fields, words, strict=True)]
        rows.append(_Row(rank=rank, cells=tuple(cells), text=texts[end], number=first + end))
        heads = names
        end += 1
    announced = heads == ("",) and at > 0 and texts[at - 1].endswith(":")
    fits = rows and (announced or any(heads))
    return (_Table(heads=heads, rows=tuple(rows)) if fits else None), end


def _goes_on(texts: Sequence[str]) -> bool:
    """Return whether lines below count steps."""
    steps: dict[str, set[tuple[str, ...]]] = {}
    for text in texts:
        if sign(text) is not None:
            template, values = reduce(text)
            steps.setdefault(template, set()).add(values)
    return any(len(values) > 1 for values in steps.values())


def _move(listed: Sequence[_Table]) -> bool:
    """Return whether a counter of most rows went on from one of the last tables to the other."""
    if len(listed) < 2 or listed[-2].heads != listed[-1].heads:
        return False
    for at, head in enumerate(listed[-1].heads):
        if _words().heads["count"].fullmatch(head):
            before, after = listed[-2].column(at), listed[-1].column(at)
            return 2 * sum(after.get(rank) != cell for rank, cell in before.items()) > len(before)
    return False


def _standing_out(table: _Table) -> tuple[Deed, frozenset[int]] | None:
    """Return the few ranks that stand out, and how."""
    heads = _words().heads
    columns = [(head, table.column(at)) for at, head in enumerate(table.heads)]
    for kind, reading in _READINGS.items():
        for head, cells in columns:
            if heads[kind].fullmatch(head) or (table.heads == ("",) and kind == "state"):
                deed, odd = reading(cells)
                if odd:
                    return deed, odd
    lacking = next(filter(None, (_lacking(head, cells) for head, cells in columns)), None)
    return (Deed.ODD, lacking) if lacking else None


def _few(odd: Iterable[int], cells: Mapping[int, object]) -> frozenset[int]:
    """Return the odd ones if they are few; else none is odd."""
    ranks = frozenset(odd)
    return ranks if len(ranks) <= max(1, len(cells) // FEW) else frozenset()


def _lacking(head: str, cells: Mapping[int, str]) -> frozenset[int]:
    """Return the few ranks without a value where all others have a number; a no beside a yes."""
    words = _words()
    readings = (
        [] if words.heads["ends"].search(head) else [(words.cells["nothing"], _words().seconds)]
    )
    readings += [(words.cells["no"], words.cells["yes"])] if head else []
    for lacks, usual in readings:
        odd = _few((rank for rank, cell in cells.items() if lacks.fullmatch(cell)), cells)
        if odd and all(usual.fullmatch(cell) for rank, cell in cells.items() if rank not in odd):
            return odd
    return frozenset()


_Odd = tuple[Deed, frozenset[int]]


def _in_state(cells: Mapping[int, str]) -> _Odd:
    """Return who does something else than most, who wait or do as they should."""
    ((common, _),) = Counter(cells.values()).most_common(1)
    odd = _few((rank for rank, cell in cells.items() if cell != common), cells)
    theirs = [cells[rank] for rank in odd]
    words = _words().cells
    waits = words["waits"].search(common) is not None
    operations = all(op_of(cell) in OPERATIONS for cell in (common, *theirs))  # read elsewhere
    if not operations and (waits or words["well"].fullmatch(common)):
        if all(map(words["over"].search, theirs)):
            return Deed.ENDED, odd
        if waits or all(map(words["not-well"].match, theirs)):
            return Deed.ODD, odd
    return Deed.ODD, frozenset()


def _behind(cells: Mapping[int, str]) -> _Odd:
    """Return whose counter is not that of the furthest."""
    counted = all(cell.isdecimal() for cell in cells.values())
    furthest = max(cells.values(), key=int) if counted else ""
    return Deed.ODD, _few((rank for rank, cell in cells.items() if cell != furthest), cells)


def _silent(cells: Mapping[int, str]) -> _Odd:
    """Return who was last seen long ago."""
    if not (ages := _seconds(cells)):
        return Deed.ODD, frozenset()
    longest = max(LONG_AGO, FAR * median_high(ages.values()))
    return Deed.ODD, _few((rank for rank, age in ages.items() if age > longest), cells)


def _slower(cells: Mapping[int, str]) -> _Odd:
    """Return whose own work takes longer than that of the others, who are alike."""
    took = _seconds(cells)
    if not took or not any("." in cell for cell in cells.values()):
        return Deed.SLOW, frozenset()
    usual = median_high(took.values())
    odd = _few((rank for rank, time in took.items() if time > SLOW * usual), cells)
    others = (time for rank, time in took.items() if rank not in odd)
    alike = all(abs(time - usual) <= ALIKE * usual for time in others)
    return Deed.SLOW, odd if alike else frozenset()


_READINGS: dict[_Kind, Callable[[Mapping[int, str]], _Odd]] = {
    "state": _in_state,
    "count": _behind,
    "last-seen": _silent,
    "work": _slower,
}
"""Who stands out in a column of a kind."""


def _seconds(cells: Mapping[int, str]) -> dict[int, float]:
    """Return the times in all cells; nothing where one has none."""
    times = {
        rank: time for rank, cell in cells.items() if (time := _words().seconds.fullmatch(cell))
    }
    if len(times) < len(cells):
        return {}
    units = {"m": 60, "h": 3600}
    return {
        rank: float(time["number"]) * units.get((time["unit"] or "")[:1], 1)
        for rank, time in times.items()
    }
