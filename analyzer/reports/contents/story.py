"""What happened, in order: the events that change the picture, one line each.

Findings say what is wrong and why; the story says when, and what followed. An event is the first
line of a finding, with how many lines of how many ranks it stands for, the end of a rank that no
finding quotes, or the entry into a call that never came back. Each line of a log is in one event.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import CallState, LastLine, LogLine, Record, Source, grouped, replace
from whyhang.analyzer.facts.times import is_whole, latest
from whyhang.analyzer.report import Event, Finding

MAX_EVENTS = 24
MAX_WORDS = 120
OTHER_CLOCK = 30 * 86400  # seconds between two events of a job; more is another clock
MOMENTS = 2  # fewer are no story


class Moment(Record):
    """An event with its absolute time (seconds since the epoch) where that is known."""

    time: float | None
    ranks: frozenset[int]
    says: str
    source: Source
    lines: int = 1
    finding: int | None = None


def story(case: Case, findings: Sequence[Finding]) -> tuple[tuple[Event, ...], float | None]:
    """Return the events of a job in order of time, relative to the first, and when that was.

    There are none where nothing tells their order.
    Where lines have no time, those of one file stand in the order of the file.
    """
    moments = list(_of_findings(case, findings))
    quoted = {p.place for finding in findings for p in finding.evidence}
    moments += _of_ends(case, quoted)
    shown = {moment.source for moment in moments}
    moments += [m for m in _of_last_words(case, findings) if m.source not in shown]
    moments += _of_entries(case)
    moments = _on_one_clock(moments)
    timed = [moment.time for moment in moments if moment.time is not None]
    files = {moment.source.file for moment in moments}
    if len(moments) < MOMENTS or (len(timed) < MOMENTS and len(files) > 1):
        return (), None
    ordered = list(_with_times(_in_order(moments)[:MAX_EVENTS]))
    first = min((time for _, time in ordered if time is not None), default=0.0)
    events = tuple(
        Event(
            seconds=round(time - first, 3) if time is not None else None,
            ranks=tuple(sorted(moment.ranks)),
            says=moment.says,
            source=moment.source.file,
            line=moment.source.line,
            lines=moment.lines,
            finding=moment.finding,
        )
        for moment, time in ordered
    )
    return events, first if timed else None


def _on_one_clock(moments: Iterable[Moment]) -> list[Moment]:
    """Drop the times that are not of the clock that most events have.

    A kernel may count from its start, and a stamp without a date is of no year: such times are
    months away from all others.
    """
    clocks: list[list[Moment]] = []
    without = [moment for moment in moments if moment.time is None]
    timed = ((moment.time, moment) for moment in moments if moment.time is not None)
    before = float("-inf")
    for time, moment in sorted(timed, key=itemgetter(0)):
        if time - before > OTHER_CLOCK:
            clocks.append([])
        clocks[-1].append(moment)
        before = time
    clocks.sort(key=len, reverse=True)
    others = [replace(moment, time=None) for clock in clocks[1:] for moment in clock]
    return [*without, *others, *(clocks[0] if clocks else ())]


def _of_findings(case: Case, findings: Sequence[Finding]) -> Iterable[Moment]:
    """Return the event of each finding that rests on lines of logs; a line is in one event only.

    A line is first an event of a cause, then of an effect that it shows by itself, then of what
    was concluded from it.
    """
    lines = {line.source: line for line in case.job.lines}
    exits = {row.source: row for row in case.job.exits}
    used: set[Source] = set()
    for number in sorted(range(len(findings)), key=lambda n: _rank_of(findings[n])):
        finding = findings[number]
        pieces = {
            piece.place: piece
            for piece in finding.evidence
            if piece.place in lines or piece.place in exits
        }
        places = [place for place in pieces if place not in used]
        if not places or finding.kind == "noise":
            continue
        used |= pieces.keys()
        first = min(
            ((lines.get(place) or exits[place]) for place in places),
            key=lambda fact: (latest(fact.time), fact.source.file, fact.source.line or 0),
        )
        alike = _alike(case, finding, [lines[place] for place in places if place in lines])
        ranks = {pieces[place].rank for place in places} | {line.who.rank for line in alike}
        yield Moment(
            time=first.time,
            ranks=frozenset(rank for rank in ranks if rank is not None)
            or frozenset(finding.culprit_ranks or ()),
            says=finding.title,
            source=first.source,
            lines=max(len(places), sum(line.count for line in alike)),
            finding=number,
        )


def _rank_of(finding: Finding) -> int:
    """Return how soon a finding takes its lines."""
    if finding.caused_by is None:
        return 0
    return 1 if finding.kind == "consequence" else 2


def _alike(case: Case, finding: Finding, lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return all lines of the kind that an effect quotes the first few of."""
    if finding.kind != "consequence" or not lines:
        return ()
    patterns = set.intersection(*(set(line.matched) for line in lines))
    return [line for line in case.job.lines_with(patterns) if patterns.issubset(line.matched)]


def _of_ends(case: Case, quoted: set[Source]) -> Iterable[Moment]:
    """Return the ends of ranks that no finding speaks of, alike ones as one."""
    known = ((case.member(state.member).rank, state.end) for state in case.states)
    ends = [
        Moment(time=end.time, ranks=frozenset({rank}), says=f"ended: {end.how}", source=end.source)
        for rank, end in known
        if rank is not None and end is not None
        if end.source not in quoted
    ]
    return _folded(ends)


def _of_last_words(case: Case, findings: Sequence[Finding]) -> Iterable[Moment]:
    """Return what the ranks to blame said last."""
    blamed = {rank for finding in findings[:1] for rank in finding.culprit_ranks or ()}
    for line in case.job.of(LastLine):
        if line.who.rank in blamed and line.source.line is not None:
            says = f"last line: {line.text[:MAX_WORDS]}"
            yield Moment(
                time=line.time, ranks=frozenset({line.who.rank}), says=says, source=line.source
            )


def _of_entries(case: Case) -> Iterable[Moment]:
    """Return when ranks entered the call that each is still in, as far as a source tells it.

    Not where a watchdog's line tells both that and its end: it is the event of the end.
    """
    entered = {
        (track.who.rank, call.op or None, call.seq): call.created_at
        for track in case.job.tracks
        for call in track.calls
        if call.created_at is not None
        and call.given_up_at is None
        and call.state is not CallState.COMPLETED
    }
    entries = []
    for rank, position in case.graph.calls.positions.items():
        call, source = position.ref, position.source
        time = entered.get((rank, call.op, call.seq))
        if position.inside and time is not None and source is not None:
            says = f"entered {call}"
            entries.append(Moment(time=time, ranks=frozenset({rank}), says=says, source=source))
    return _folded(entries)


def _folded(moments: Iterable[Moment]) -> Iterable[Moment]:
    """Join what several ranks did alike: at the time of the first, of all ranks."""
    for alike in grouped(moments, lambda moment: moment.says).values():
        first = min(alike, key=lambda moment: (latest(moment.time), moment.source.line or 0))
        ranks = frozenset[int]().union(*(moment.ranks for moment in alike))
        yield replace(first, ranks=ranks, lines=len(alike))


def _in_order(moments: Iterable[Moment]) -> list[Moment]:
    """Sort by time; what has none stands behind what is above it in its file, or else before.

    An event of a whole second stands behind the others of that second, but not behind those of
    them that are below it in its file.
    """
    by_file = grouped(moments, lambda moment: moment.source.file)
    placed: list[tuple[float, str, int, Moment]] = []
    for file, own in by_file.items():
        own.sort(key=lambda moment: moment.source.line or 0)
        times = [latest(moment.time) for moment in own if moment.time is not None]
        time = min(times[:1], default=float("-inf"))
        for at, moment in enumerate(own):
            if moment.time is not None:
                below = (m.time for m in own[at:] if m.time is not None and m.time >= moment.time)
                time = min(latest(moment.time), *map(latest, below))
            placed.append((time, file, moment.source.line or 0, moment))
    return [moment for *_, moment in sorted(placed, key=lambda row: row[:3])]


def _with_times(moments: Iterable[Moment]) -> Iterable[tuple[Moment, float | None]]:
    """Give each event its time; one of a whole second is not before the one above it."""
    above = float("-inf")
    for moment in moments:
        time = moment.time
        if time is not None and is_whole(time) and time < above < latest(time):
            time = above
        above = above if time is None else time
        yield moment, time
