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
from collections.abc import Iterator, Sequence
from typing import Literal

from whyhang.analyzer.facts import Account, Deed, Record, SignOfLife, Trust, Who
from whyhang.collectors import limits, tables
from whyhang.collectors.logs.lines.line_reader import LogFile
from whyhang.collectors.logs.lines.signs_of_life import sign
from whyhang.collectors.logs.text.line import clean
from whyhang.collectors.logs.text.logger_header import header_end
from whyhang.collectors.logs.text.templates import reduce
from whyhang.collectors.ops import OPERATIONS, op_of

LEAST = 3  # rows
FEW = 4  # one row in so many may stand out, or one
LONGEST = 300  # characters of a row
LONG_AGO = 30.0  # seconds since a rank was seen
FAR = 10.0  # times as long as the others
SLOW = 1.3  # times as long at work
ALIKE = 0.15  # share by which those differ who are not slow

_RULER = re.compile(r"[\s|+=:_-]*$")
_GAPS = (re.compile(r"\s*\|\s*"), re.compile(r"\t+| {2,}"), re.compile(r"\s+"))
_RANKS = re.compile(
    r"#?(?:(?:global|mpi)[ _-]?)?(?:ranks?|tasks?|proc(?:ess)?|workers?|members?|peers?|pe"
    r"|rang|prozess|进程|ランク|プロセス|id)(?:[ _-]?(?:id|no\.?|nr\.?))?",
    re.IGNORECASE,
)
_RANK = re.compile(rf"(?:{_RANKS.pattern}[ _:=#-]?)?(?P<rank>\d{{1,5}})", re.IGNORECASE)
_ROW = re.compile(
    r"\W{0,4}(?:rank|task|worker|process|proc|peer|member|Rang)[ _=:#-]{0,2}(?P<rank>\d{1,5})\b"
    r"[\]):]{0,2}\s*[-|:>]{0,2}\s*(?P<rest>\S.*)",
    re.IGNORECASE,
)
_FIELD = re.compile(r"(?P<name>[A-Za-z_][\w.]*)[=:](?P<value>\S*)")
_SECONDS = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>m(?:in)?|h)?s?(?: ago)?")

Pattern = limits.Pattern[str]


class _Words(Record):
    heads: dict[Literal["state", "count", "last-seen", "work", "ends"], Pattern]
    cells: dict[Literal["waits", "well", "over", "not-well", "nothing", "no", "yes"], Pattern]


@functools.cache
def _words() -> _Words:
    return tables.patterns("logs", "state_tables.toml", _Words)


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
    texts = [text[header_end(text, file.voice.logger) :].strip() for text in texts]
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
    for gap in _GAPS:
        heads = tuple(gap.split(texts[at].strip("| ")))
        place = next((n for n, head in enumerate(heads) if _RANKS.fullmatch(head)), None)
        if place is None or len(heads) < 2:
            continue
        rows: list[_Row] = []
        end = at + 1
        while end < len(texts):
            cells = tuple(gap.split(texts[end].strip("| ")))
            rank = _RANK.fullmatch(cells[place]) if len(cells) == len(heads) else None
            if rank is not None:
                rows.append(
                    _Row(rank=int(rank["rank"]), cells=cells, text=texts[end], number=first + end)
                )
            elif rows or _RULER.match(texts[end]) is None:
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
    while end < len(texts) and (row := _ROW.match(texts[end])):
        words = row["rest"].split()
        fields = [_FIELD.fullmatch(word.rstrip(",;")) for word in words]
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
    heads, words = _words().heads, _words().cells
    readings = (
        (heads["state"], _in_state),
        (heads["count"], _behind),
        (heads["last-seen"], _silent),
        (heads["work"], _slower),
    )
    for kind, reading in readings:
        for at, head in enumerate(table.heads):
            named = kind.fullmatch(head) is not None
            if named or (table.heads == ("",) and reading is _in_state):
                odd = reading(table.column(at))
                if odd is not None:
                    return odd
    lacking = (
        _lacks(table.column(at))
        for at, head in enumerate(table.heads)
        if not heads["ends"].search(head)
    )
    if (ranks := next(filter(None, lacking), None)) is not None:
        return Deed.ODD, ranks
    answers = (table.column(at) for at, head in enumerate(table.heads) if head)
    negative = (
        {r for r, cell in cells.items() if words["no"].fullmatch(cell)}
        for cells in answers
        if all(words["no"].fullmatch(c) or words["yes"].fullmatch(c) for c in cells.values())
    )
    return next(
        (
            (Deed.ODD, frozenset(no))
            for no in negative
            if 0 < len(no) <= max(1, len(table.rows) // FEW)
        ),
        None,
    )


def _few(cells: dict[int, str], common: str) -> frozenset[int]:
    """Return the ranks with another value than the common one, if they are few."""
    odd = frozenset(rank for rank, cell in cells.items() if cell != common)
    return odd if 0 < len(odd) <= max(1, len(cells) // FEW) else frozenset()


def _lacks(cells: dict[int, str]) -> frozenset[int]:
    """Return the few ranks without a value where all others have a number."""
    nothing = _words().cells["nothing"].fullmatch
    lack = frozenset(rank for rank, cell in cells.items() if nothing(cell))
    others = (cell for rank, cell in cells.items() if rank not in lack)
    few = 0 < len(lack) <= max(1, len(cells) // FEW)
    return lack if few and all(map(_SECONDS.fullmatch, others)) else frozenset()


def _in_state(cells: dict[int, str]) -> tuple[Deed, frozenset[int]] | None:
    ((common, _),) = Counter(cells.values()).most_common(1)
    odd = _few(cells, common)
    theirs = [cells[rank] for rank in odd]
    words = _words().cells
    waits = words["waits"].search(common) is not None
    operations = all(op_of(cell) in OPERATIONS for cell in (common, *theirs))  # read elsewhere
    if not odd or operations or not (waits or words["well"].fullmatch(common)):
        return None
    if all(map(words["over"].search, theirs)):
        return Deed.ENDED, odd
    if waits or all(map(words["not-well"].match, theirs)):
        return Deed.ODD, odd
    return None


def _behind(cells: dict[int, str]) -> tuple[Deed, frozenset[int]] | None:
    if not all(cell.isdecimal() for cell in cells.values()):
        return None
    furthest = max(cells.values(), key=int)
    odd = _few(cells, furthest)
    return (Deed.ODD, odd) if odd else None


def _silent(cells: dict[int, str]) -> tuple[Deed, frozenset[int]] | None:
    times = {rank: _SECONDS.fullmatch(cell) for rank, cell in cells.items()}
    ages = {
        rank: float(time["number"]) * {"m": 60, "h": 3600}.get((time["unit"] or "")[:1], 1)
        for rank, time in times.items()
        if time is not None
    }
    if len(ages) < len(cells):
        return None
    usual = sorted(ages.values())[len(ages) // 2]
    odd = frozenset(rank for rank, age in ages.items() if age > max(LONG_AGO, FAR * usual))
    return (Deed.ODD, odd) if 0 < len(odd) <= max(1, len(ages) // FEW) else None


def _slower(cells: dict[int, str]) -> tuple[Deed, frozenset[int]] | None:
    times = {rank: _SECONDS.fullmatch(cell) for rank, cell in cells.items()}
    took = {rank: float(time["number"]) for rank, time in times.items() if time is not None}
    if len(took) < len(cells) or not any("." in cell for cell in cells.values()):
        return None
    usual = sorted(took.values())[len(took) // 2]
    odd = frozenset(rank for rank, time in took.items() if time > SLOW * usual)
    alike = all(
        abs(time - usual) <= ALIKE * usual for rank, time in took.items() if rank not in odd
    )
    return (Deed.SLOW, odd) if alike and 0 < len(odd) <= max(1, len(took) // FEW) else None
