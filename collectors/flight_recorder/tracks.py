"""From a dump to facts: who wrote it, the groups it knows, how far the rank came on each.

A dump does not say whose it is; its file name usually does. The groups' member lists and the
names of sends and receives bear that out or contradict it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from whyhang.analyzer.facts import (
    Call,
    CallState,
    Fact,
    Gap,
    Group,
    Record,
    Setting,
    Source,
    Track,
    Trust,
    Who,
    fold,
    replace,
)
from whyhang.collectors.flight_recorder.active_only import only_active, with_ends
from whyhang.collectors.flight_recorder.entries import (
    KEPT_AT_MOST,
    KEPT_COMPLETED,
    Row,
    calls,
    named,
    rows,
    worth_keeping,
)
from whyhang.collectors.flight_recorder.groups import (
    Status,
    by_number,
    count,
    groups_of,
    numbered,
    statuses_of,
)
from whyhang.collectors.flight_recorder.pace import GLOO, moves
from whyhang.collectors.flight_recorder.torch_dump import Dump
from whyhang.collectors.flight_recorder.values import text

KIND = "flight-recorder"


SMALLEST_RING = 10
"""Fewer records than these are no ring that was too small, but a file made by hand."""


class Place(Record):
    """What stays the same for all facts of one dump.

    ``again`` reads all its calls of a group. ``written_at`` is when the file was written, or
    later where it was copied since.
    """

    who: Who
    source: Source
    look: int
    again: Callable[[str], tuple[Call, ...]] | None
    written_at: float | None = None


def facts(dump: Dump, place: Place) -> Iterator[Fact]:
    """Say all that a dump says."""
    known = _rows(dump)
    groups = groups_of(dump.top, known)
    who, doubts = _whose(place, groups, known)
    place = replace(place, who=who)
    yield from doubts
    yield from groups.values()
    yield from _settings(dump.top, known, place)
    if _overwritten(dump, known, groups):
        yield Gap(
            what=f"flight recorder dump {place.source.file}",
            why="its ring was too small for what was under way: calls that are not finished "
            "were overwritten by later ones",
            cost="the call that holds this rank up is not known from it",
            remedy="Set a larger TORCH_FR_BUFFER_SIZE for the next run",
            who=who,
            source=place.source,
        )
        return
    tracks = list(_tracks(dump, known, groups, place))
    yield from tracks
    if any(track.unrecorded for track in tracks):
        yield Gap(
            what=f"flight recorder dump {place.source.file}",
            why="its rank also makes calls that gloo does not record: sends and receives",
            cost="it may stand in one of those, unseen",
            remedy="Take the stacks of the ranks while they hang, with whyhang PID",
            who=who,
            source=place.source,
        )
    if not tracks:
        yield Gap(
            what=f"flight recorder dump {place.source.file}",
            why="it holds no calls (the recorder may have been off: TORCH_FR_BUFFER_SIZE=0, "
            "the default before torch 2.11)",
            cost="where this rank stands is not known from it",
            remedy="Set TORCH_FR_BUFFER_SIZE=2000 for the next run",
            who=who,
            source=place.source,
        )


def calls_of_group(dump: Dump, name: str) -> tuple[Call, ...]:
    """Give every call of one group that the dump holds."""
    if only_active(dump.entries) or numbered(dump.entries):
        every = _rows(dump)
    else:
        every = rows(e for e in dump.entries if isinstance(e, dict) and name in named(e))
    known = [row for row in every if row.group[0] == name]
    group = groups_of(dump.top, known).get(name)
    return tuple(calls(known, group.ranks if group else None))


def _rows(dump: Dump) -> list[Row]:
    known = rows(dump.entries)
    if numbered(dump.entries):
        groups = by_number(dump.top, known)
        known = [replace(row, group=groups.get(row.pg_id, row.group)) for row in known]
    if not only_active(dump.entries):
        return known
    statuses = statuses_of(dump.top, known, groups_of(dump.top, known))
    return with_ends(known, {name: status.enqueued for name, status in statuses.items()})


def _tracks(
    dump: Dump, known: Sequence[Row], groups: Mapping[str, Group], place: Place
) -> Iterator[Track]:
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in known:
        by_group[row.group[0]].append(row)
    statuses = statuses_of(dump.top, known, groups)
    lost = _lost(dump)
    over_gloo = bool(known) and all(row.name.library == GLOO for row in known)
    unrecorded = over_gloo and _more_than_recorded(known, statuses)
    in_motion = moves(known, place.written_at)
    active = _of_active_calls(dump, known)
    for name, group in groups.items():
        own = by_group.get(name, [])
        status = statuses.get(name)
        if not own and status is None and not active:
            continue
        again = functools.partial(place.again, name) if place.again else None
        track = Track(
            who=place.who,
            group=group,
            kind=KIND,
            source=place.source,
            lost=lost,
            look=place.look,
            detail=again if not dump.whole or len(own) > KEPT_AT_MOST else None,
            library=own[-1].name.library if own else "",
            unrecorded=unrecorded,
            in_motion=in_motion,
            idle=not own and status is None,
            cut=dump.cut,
        )
        yield _with_calls(track, own, group) if own else _with_status(track, status)


def _with_calls(track: Track, own: Sequence[Row], group: Group) -> Track:
    """Fill in how far the rank came, from entries: they are surer than ``pg_status``."""
    issued = calls(own, group.ranks)
    collectives = [call for call in issued if not call.p2p and call.seq is not None]
    enqueued = max((row.seq for row in own if row.seq is not None), default=None)
    unfinished = [
        call.seq
        for call in collectives
        if call.state is not CallState.COMPLETED and call.seq is not None
    ]
    started = [c.seq for c in collectives if c.state >= CallState.STARTED and c.seq is not None]
    return replace(
        track,
        enqueued=enqueued,
        started=max(started, default=None),
        completed=min(unfinished) - 1 if unfinished else enqueued,
        calls=worth_keeping(issued, KEPT_COMPLETED if track.detail else KEPT_AT_MOST),
    )


def _overwritten(dump: Dump, known: Sequence[Row], groups: Mapping[str, Group]) -> bool:
    """Tell whether a wrapped ring lost calls that are not finished: then its oldest is none.

    ``pg_status`` tells up to which number calls are finished. Where a group has both, it may
    count collectives or sends, and over gloo it counts neither. Without it, a ring that begins
    with an unfinished call may have held older ones.
    """
    first = next(iter(rows([dump.first])), None)
    if first is None or not first.order:
        return False
    if "pg_status" not in dump.top:  # before torch 2.5
        began = first.p2p or first.retired or first.state is CallState.COMPLETED
        return not began and len(dump.entries) >= SMALLEST_RING
    if not dump.whole:
        return False
    if all(row.name.library == "gloo" for row in known):
        return False
    numbers: dict[str, set[int | None]] = defaultdict(set)
    waiting: dict[str, set[int | None]] = defaultdict(set)
    kinds: dict[str, set[bool]] = defaultdict(set)
    for row in known:
        name, number_ = row.group[0], row.p2p_seq if row.p2p else row.seq
        kinds[name].add(row.p2p)
        numbers[name].add(number_)
        if row.state is CallState.COMPLETED:
            waiting[name].discard(number_)  # the end of a batch
        else:
            waiting[name].add(number_)
    for name, status in statuses_of(dump.top, known, groups).items():
        oldest = min((n for n in waiting[name] if n is not None), default=None)
        if len(kinds[name]) != 1 or oldest is None or status.completed is None:
            continue
        if oldest > status.completed + 1 and oldest - 1 not in numbers[name]:
            return True
    return False


def _of_active_calls(dump: Dump, known: Sequence[Row]) -> bool:
    """Tell whether all calls but the open ones were left out, so that who is not told of is idle.

    A recorder that is switched off has no entries either, but then ``pg_status`` counts open calls.
    """
    status = dump.top.get("pg_status")
    counts = (
        [own for own in status.values() if isinstance(own, dict)]
        if isinstance(status, dict)
        else []
    )
    done = [count(own.get("last_completed_collective"), none=0) or 0 for own in counts]
    launched = [count(own.get("last_enqueued_collective"), none=0) or 0 for own in counts]
    if not any(done) or not only_active(dump.entries) or not dump.whole:
        return False
    if any(row.name.library == GLOO for row in known):
        return False
    return bool(known) or done == launched


def _more_than_recorded(known: Sequence[Row], statuses: Mapping[str, Status]) -> bool:
    """Tell whether there are calls that gloo makes and does not record: sends and receives.

    ``pg_status`` counts them with the collectives once they are done. Groups without any entry
    leave a gap in the numbers that the process gives to its groups.
    """
    last: dict[str, int] = {}
    for row in known:
        last[row.group[0]] = max(last.get(row.group[0], 0), row.seq or 0)
    numbers = {row.pg_id for row in known if row.pg_id is not None}
    gap = bool(numbers) and len(numbers) <= max(numbers)
    return gap or any(
        (own := statuses.get(name)) is not None and (own.enqueued or 0) > seq
        for name, seq in last.items()
    )


def _with_status(track: Track, status: Status | None) -> Track:
    if status is None:
        return track
    return replace(
        track, enqueued=status.enqueued, started=status.started, completed=status.completed
    )


def _lost(dump: Dump) -> int:
    """Count the records that the ring buffer overwrote before the first that is left.

    A dump of active calls only begins with an unfinished one, of which nothing can be said.
    """
    first = next(iter(rows([dump.first])), None)
    if first is None or first.order is None or first.state is not CallState.COMPLETED:
        return 0
    return first.order


def _whose(
    place: Place, groups: Mapping[str, Group], known: Sequence[Row]
) -> tuple[Who, list[Gap]]:
    """Decide whose dump it is: by its content where that is clear, else by its name."""
    named = place.who
    possible = _rank_by_content(groups, known)
    if len(possible) == 1:
        (rank,) = possible
        who = replace(named, rank=rank, trust=max(named.trust, Trust.FLIGHT_RECORDER))
    elif named.rank is None or not possible or named.rank in possible:
        return named, []
    else:
        rank, who = min(possible), replace(named, rank=None, trust=Trust.NONE)
    if named.rank in {None, rank}:
        return who, []
    others = fold(possible)
    doubt = Gap(
        what=f"the rank of {place.source.file}",
        why=f"it is named as rank {named.rank}, but its groups are those of rank {others}",
        cost=f"it was taken as rank {who.rank}" if len(possible) == 1 else "it was left out",
        remedy="Name each dump after the rank that wrote it",
        who=who,
        source=place.source,
    )
    return who, [doubt]


def _rank_by_content(groups: Mapping[str, Group], known: Sequence[Row]) -> set[int]:
    """Give the ranks that the dump can be of; empty where it does not say.

    It is a member of all its groups, and sends under its own rank within the group.
    """
    for row in known:
        own = groups.get(row.group[0])
        me = row.name.me
        if me is not None and own is not None and own.ranks is not None and me < len(own.ranks):
            return {own.ranks[me]}
    lists = sorted((group.ranks for group in groups.values() if group.ranks), key=len)
    possible = set(lists[0]) if lists else set()
    for ranks in lists[1:]:
        if len(possible) < 2:
            break
        possible.intersection_update(ranks)
    return possible


def _settings(
    top: Mapping[object, object], known: Sequence[Row], place: Place
) -> Iterator[Setting]:
    libraries = {row.name.library for row in known} - {""}
    backend = libraries.pop() if len(libraries) == 1 else ""
    version = text(top.get("nccl_version"))
    if backend.startswith("nccl") and not version:
        version = text(top.get("comm_lib_version"))
    if version:
        yield Setting(name="nccl", value=version, who=place.who, source=place.source)
    if backend:
        yield Setting(name="backend", value=backend, who=place.who, source=place.source)
