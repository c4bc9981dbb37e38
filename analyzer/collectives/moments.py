"""Whether the recorder dumps show one moment, and a job that stands still.

Dumps are taken rank by rank, and a file of an earlier time may lie beside newer ones. A call
that takes every member's part and is completed on one rank has been joined by all of them: a
dump of a member that ends before it is older, and does not tell where that rank stands now.
Over gloo there is another reading: a call that failed is recorded like one that went well. So where
a call is the last of all on a rank that others have not joined, it may have failed there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from whyhang.analyzer.collectives.book import OVERTAKEN, Book, Standing, Table
from whyhang.analyzer.collectives.compare import ROOTED, split
from whyhang.analyzer.collectives.records import Disagreement, Finding, Quote, Verdict
from whyhang.analyzer.collectives.words import ranks_in_words, record
from whyhang.analyzer.facts import Call, CallState, Record, Source, Track, replace

RECORDER = "flight-recorder"
OTHER_RUN = 60.0
"""Seconds that a dump may seem to be newer than one that overtook it: clocks differ."""


def overtaken(book: Book) -> dict[int, Disagreement]:
    """Find the ranks whose dumps others overtook, each with what shows it."""
    found: dict[int, Disagreement] = {}
    newest = _newest_calls(book)
    ends = {id(call) for _, call in _last_calls(book).values()}
    for table in book.tables:
        passed = _passed(table, ends)
        if passed is None:
            continue
        number, witness = passed
        behind = [
            rank
            for rank, own in table.standings.items()
            if _recorded(own) and own.exact and (own.enqueued or 0) < number
        ]
        # Calls that were issued long after the other dump's last one cannot be overtaken by it.
        later = [r for r in behind if newest.get(r, 0.0) > newest.get(witness, 0.0) + OTHER_RUN]
        if later:
            found.setdefault(witness, _said(table, witness, later[0], "an earlier run"))
        else:
            for rank in behind:
                found.setdefault(rank, _said(table, rank, witness, f"before #{number}"))
    return found


def forget(tracks: Iterable[Track], ranks: Mapping[int, object]) -> list[Track]:
    """Keep of some ranks' dumps only that there are such ranks and which groups they use."""
    return [
        replace(
            track,
            kind=OVERTAKEN,
            enqueued=None,
            started=None,
            completed=None,
            calls=(),
            detail=None,
        )
        if track.kind == RECORDER and track.who.rank in ranks
        else track
        for track in tracks
    ]


class Failed(Record):
    """A call of one rank, on the table of this name, that counts as finished and may not be."""

    table: str
    rank: int
    seq: int
    said: Disagreement


def failed(book: Book) -> list[Failed]:
    """Find calls over gloo that count as finished on a rank and went no further."""
    return [
        Failed(
            table=table.name,
            rank=rank,
            seq=call.seq or 0,
            said=_broken_off(table, rank, call),
        )
        for rank, (table, call) in _last_calls(book).items()
        if call.state is CallState.COMPLETED and _may_have_failed(table, rank, call)
    ]


def with_open(book: Book, calls: Iterable[Failed]) -> Book:
    """Take those calls for unfinished ones."""
    tables = {table.name: table for table in book.tables if table.space == "torch"}
    said = []
    for found in calls:
        own = tables[found.table].standings[found.rank] if found.table in tables else None
        if own is None or found.seq not in own.calls:
            continue
        call = replace(own.calls[found.seq], state=CallState.SCHEDULED)
        tables[found.table].standings[found.rank] = replace(
            own, calls={**own.calls, found.seq: call}, completed=found.seq - 1
        )
        said.append(found.said)
    return replace(book, disagreements=(*book.disagreements, *said)) if said else book


def running(book: Book) -> bool:
    """Tell whether every dump was written while its rank went on, and none is missing."""
    own = [s for table in book.tables for s in table.standings.values() if s.known]
    if any(table.absent and not table.inferred for table in book.tables):
        return False
    return bool(own) and all(s.tracks and all(t.in_motion for t in s.tracks) for s in own)


def in_motion(book: Book) -> Finding:
    """Say that the dumps are of a job that ran."""
    quotes: list[Quote] = []
    for table in book.tables:
        for rank, own in table.standings.items():
            if own.source is not None and own.calls and len(quotes) < MAX_QUOTED:
                text = record(own.calls[max(own.calls)], table.name)
                quotes.append(Quote(rank=rank, source=own.source, text=text))
    return Finding(
        verdict=Verdict.IN_MOTION,
        says=f"The dumps of {ranks_in_words(book.present)} were written while the ranks still "
        "went on: the newest call of each is no older than the pauses it makes anyway",
        quotes=tuple(quotes),
        sources=tuple(dict.fromkeys(quote.source for quote in quotes)),
    )


MAX_QUOTED = 3


def _recorded(standing: Standing) -> bool:
    """Tell whether a standing is told by a recorder, be it by its silence."""
    return not standing.tracks or standing.tracks[0].kind == RECORDER


def _passed(table: Table, ends: Collection[int]) -> tuple[int, int] | None:
    """Find the last number that some rank is through with and that takes everyone's part.

    ``ends`` are the calls that ranks issued last: those may have failed, over gloo.
    """
    if table.space != "torch" or len(table.members) < 2:
        return None
    best: tuple[int, int] | None = None
    for rank, own in table.standings.items():
        if not own.tracks or not _recorded(own) or not own.exact:
            continue
        for seq, call in own.calls.items():
            joint = call.op and call.op not in ROOTED and call.state is CallState.COMPLETED
            if id(call) in ends and _over_gloo(own) and not _may_move(table, seq):
                continue
            if joint and (best is None or seq > best[0]):
                best = seq, rank
    return best


def _over_gloo(standing: Standing) -> bool:
    return any(track.library == "gloo" for track in standing.tracks)


def _may_move(table: Table, seq: int) -> bool:
    """Tell whether a rank that has not joined a call was still going on."""
    behind = (own for own in table.standings.values() if (own.enqueued or 0) < seq)
    return any(track.in_motion for own in behind for track in own.tracks)


def _newest_calls(book: Book) -> dict[int, float]:
    """Say when each rank issued its newest call."""
    newest: dict[int, float] = {}
    for table in book.tables:
        for rank, own in table.standings.items():
            times = [c.created_at for c in (*own.calls.values(), *own.p2p) if c.created_at]
            newest[rank] = max((newest.get(rank, 0.0), *times))
    return newest


def _last_calls(book: Book) -> dict[int, tuple[Table, Call]]:
    """Give the call that each rank issued last."""
    last: dict[int, tuple[Table, Call]] = {}
    for table in book.tables:
        for rank, own in table.standings.items():
            for call in (*own.calls.values(), *own.p2p):
                if rank not in last or (call.order or 0) > (last[rank][1].order or 0):
                    last[rank] = table, call
    return last


def _may_have_failed(table: Table, rank: int, call: Call) -> bool:
    """Tell whether a call over gloo that counts as finished had not brought its group together."""
    own = table.standings[rank]
    if call.p2p or call.seq is None or not _over_gloo(own):
        return False
    told = {r: s for r, s in table.standings.items() if s.tracks and s.enqueued is not None}
    if any((other.enqueued or 0) < call.seq for other in told.values()):
        return True
    calls = {r: s.calls[call.seq] for r, s in told.items() if call.seq in s.calls}
    return split(calls, table.members) is not None


def _broken_off(table: Table, rank: int, call: Call) -> Disagreement:
    source = table.standings[rank].source
    return Disagreement(
        rank=rank,
        group=table.name,
        what=f"the end of {call.op} #{call.seq}",
        believed="not all of the group have joined it, or not with the same call",
        other="it counts as finished on this rank: it may have failed there",
        sources=(source,) if source is not None else (),
    )


def _said(table: Table, rank: int, other: int, when: str) -> Disagreement:
    sources = (table.standings[rank].source, table.standings[other].source)
    return Disagreement(
        rank=rank,
        group=table.name,
        what="the moment of its dump",
        believed=f"rank {other}'s is newer",
        other=f"its own is of {when}, and was left out",
        sources=tuple(source for source in sources if isinstance(source, Source)),
    )
