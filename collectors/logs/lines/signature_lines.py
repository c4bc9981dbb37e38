"""The lines that signatures' patterns found, folded so that a storm of them costs nothing.

Lines are alike if the same patterns found them and the same rank (or process, or host) says
them. Of each kind the first few and the last are kept, and those whose fields say something
new; the rest is counted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from whyhang.analyzer.facts import LogLine, Who, replace
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import MAX_TEXT, FoundLine
from whyhang.collectors.ops import op_of

LEAD = 300  # of them, before what was found
KEEP_FIRST = 3
KEEP_DIFFERENT = 12  # further lines of a kind that capture something else
MAX_KINDS = 32_000  # of one file: some for each of many ranks

_Key = tuple[tuple[str, ...], int | None, str | None, int | None, int | None, str | None]


@dataclass
class _Kind:
    """What is kept of lines that are alike."""

    kept: list[LogLine] = field(default_factory=list)
    last: LogLine | None = None
    seen: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    uncounted: int = 0  # lines dropped since the last one kept


class Fold:
    """Takes lines in the order of the file and gives the few that stand for all."""

    def __init__(self) -> None:
        self._kinds: dict[_Key, _Kind] = {}
        self.dropped = 0

    def add(self, line: FoundLine, matches: list[tuple[str, Match]]) -> None:
        """Take in a line with what was found in it, by pattern."""
        for kept in log_lines(line, matches):
            self._add(kept)

    def _add(self, line: LogLine) -> None:
        kind = self._kinds.get(_key(line))
        if kind is None:
            if len(self._kinds) >= MAX_KINDS:
                self.dropped += 1
                return
            kind = self._kinds[_key(line)] = _Kind()
        captured = tuple(sorted(line.fields.items()))
        new = captured not in kind.seen and len(kind.seen) < KEEP_DIFFERENT
        if len(kind.kept) < KEEP_FIRST or new:
            kind.seen.add(captured)
            kind.kept.append(line)
            return
        kind.uncounted += 1
        kind.last = line

    def lines(self, passed_over: Mapping[str, int]) -> Iterator[LogLine]:
        """Yield what was kept, in the order of the file; counts add up to all lines.

        ``passed_over`` counts, by pattern, lines that were found and not looked at.
        """
        lines: list[LogLine] = []
        more = dict(passed_over)
        for key, kind in self._kinds.items():
            for pattern in key[0]:  # whose they were is not known: the first who said it
                kind.uncounted += more.pop(pattern, 0)
            kept = list(kind.kept)
            if kind.last is not None:
                kept.append(replace(kind.last, count=kind.uncounted))
            elif kind.uncounted:
                kept[-1] = replace(kept[-1], count=1 + kind.uncounted)
            lines += kept
        yield from sorted(lines, key=lambda line: (line.source.line or 0, line.offset or 0))


def _key(line: LogLine) -> _Key:
    who: Who = line.who
    return (line.matched, who.rank, who.host, who.pid, who.local_rank, who.label)


def log_lines(line: FoundLine, matches: list[tuple[str, Match]]) -> Iterator[LogLine]:
    """Yield one fact of a line, or several where patterns capture different things by one name."""
    rest = [(pattern, match, _fields(match)) for pattern, match in matches]
    while rest:
        fields: dict[str, str] = {}
        taken = []
        for entry in rest:
            if all(fields.get(key, value) == value for key, value in entry[2].items()):
                fields.update(entry[2])
                taken.append(entry)
        rest = [entry for entry in rest if entry not in taken]
        first = min(match.start() for _, match, _ in taken)
        begin = max(0, min(first - LEAD, len(line.text) - MAX_TEXT))
        yield line.as_fact(
            line.text[begin : begin + MAX_TEXT],
            matched=tuple(pattern for pattern, _, _ in taken),
            fields=fields,
        )


def _fields(match: Match) -> dict[str, str]:
    named = {key: value.strip() for key, value in match.groupdict().items() if value is not None}
    return {key: op_of(value) if key == "op" else value for key, value in named.items()}
