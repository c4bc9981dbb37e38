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
from whyhang.collectors.flight_recorder.calls import (
    KEPT_AT_MOST,
    KEPT_COMPLETED,
    calls,
    with_ends_of_batches,
    worth_keeping,
)
from whyhang.collectors.flight_recorder.entries import GLOO, Row, group_of, rows, text
from whyhang.collectors.flight_recorder.excerpt import Dump
from whyhang.collectors.flight_recorder.groups import (
    Status,
    by_number,
    groups_of,
    numbered,
    status_by_id,
    statuses_of,
)
from whyhang.collectors.flight_recorder.pace import moves

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
    again: Callable[[str], tuple[Call, ...]]
    written_at: float | None = None

    def gap(self, why: str, cost: str, remedy: str) -> Gap:
        """Make a gap of this dump."""
        what = f"flight recorder dump {self.source.file}"
        return Gap(what=what, why=why, cost=cost, remedy=remedy, who=self.who, source=self.source)


def facts(dump: Dump, place: Place) -> Iterator[Fact]:
    """Yield all that a dump says."""
    known = _rows(dump)
    groups = groups_of(dump.top, known)
    who, doubt = _whose(place, groups, known)
    place = replace(place, who=who)
    if doubt is not None:
        yield doubt
    yield from groups.values()
    yield from _settings(dump.top, known, place)
    statuses = statuses_of(dump.top, known, groups)
    if _overwritten(dump, known, statuses):
        yield place.gap(
            "its ring was too small for what was under way: calls that are not finished "
            "were overwritten by later ones",
            "the call that holds this rank up is not known from it",
            "Set a larger TORCH_FR_BUFFER_SIZE for the next run",
        )
        return
    tracks = list(_tracks(dump, known, groups, statuses, place))
    yield from tracks
    if any(track.unrecorded for track in tracks):
        yield place.gap(
            "its rank also makes calls that gloo does not record: sends and receives",
            "it may stand in one of those, unseen",
            "Take the stacks of the ranks while they hang, with whyhang PID",
        )
    if not tracks:
        yield place.gap(
            "it holds no calls (the recorder may have been off: TORCH_FR_BUFFER_SIZE=0, "
            "the default before torch 2.11)",
            "where this rank stands is not known from it",
            "Set TORCH_FR_BUFFER_SIZE=2000 for the next run",
        )


def calls_of_group(dump: Dump, name: str) -> tuple[Call, ...]:
    """Return every call of one group that the dump holds."""
    entries = [entry for entry in dump.entries if isinstance(entry, dict)]
    if numbered(entries) or all(entry.get("state") != "completed" for entry in entries):
        known = _rows(dump)  # entries of other groups tell of this one
    else:
        known = rows(entry for entry in entries if name in group_of(entry))
    known = [row for row in known if row.group[0] == name]
    group = groups_of(dump.top, known).get(name)
    return tuple(calls(known, group.ranks if group else None))


def _rows(dump: Dump) -> list[Row]:
    known = rows(dump.entries)
    if numbered(dump.entries):
        names = by_number(dump.top, known)
        known = [replace(row, group=names.get(row.pg_id, row.group)) for row in known]
    if any(row.state is CallState.COMPLETED for row in known):
        return known
    statuses = statuses_of(dump.top, known, groups_of(dump.top, known))
    enqueued = {name: status.enqueued for name, status in statuses.items()}
    return with_ends_of_batches(known, enqueued)


def _tracks(
    dump: Dump,
    known: Sequence[Row],
    groups: Mapping[str, Group],
    statuses: Mapping[str, Status],
    place: Place,
) -> Iterator[Track]:
    by_group: dict[str, list[Row]] = defaultdict(list)
    for row in known:
        by_group[row.group[0]].append(row)
    over_gloo = bool(known) and all(row.name.library == GLOO for row in known)
    unrecorded = over_gloo and _more_than_recorded(known, statuses)
    in_motion = moves(known, place.written_at)
    lost = _lost(dump)
    active_only = _active_only(dump, known)
    for name, group in groups.items():
        own = by_group.get(name, [])
        status = statuses.get(name, Status(enqueued=None, started=None, completed=None))
        if not own and name not in statuses and not active_only:
            continue
        partial = not dump.whole or len(own) > KEPT_AT_MOST
        track = Track(
            who=place.who,
            group=group,
            kind=KIND,
            source=place.source,
            enqueued=status.enqueued,
            started=status.started,
            completed=status.completed,
            lost=lost,
            look=place.look,
            detail=functools.partial(place.again, name) if partial else None,
            library=own[-1].name.library if own else "",
            unrecorded=unrecorded,
            in_motion=in_motion,
            idle=not own and name not in statuses,
            cut=dump.cut,
        )
        yield _with_calls(track, own, group) if own else track


def _with_calls(track: Track, own: Sequence[Row], group: Group) -> Track:
    """Fill in how far the rank came, from entries: they are surer than ``pg_status``."""
    issued = calls(own, group.ranks)
    collectives = [call for call in issued if not call.p2p]
    enqueued = max((row.seq for row in own if row.seq is not None), default=None)
    started = [c.seq for c in collectives if c.state >= CallState.STARTED and c.seq is not None]
    unfinished = [
        c.seq for c in collectives if c.state is not CallState.COMPLETED and c.seq is not None
    ]
    return replace(
        track,
        enqueued=enqueued,
        started=max(started, default=None),
        completed=min(unfinished) - 1 if unfinished else enqueued,
        calls=worth_keeping(issued, KEPT_COMPLETED if track.detail else KEPT_AT_MOST),
    )


def _first(dump: Dump) -> Row | None:
    return next(iter(rows([dump.first])), None)


def _lost(dump: Dump) -> int:
    """Count the records that the ring buffer overwrote before the first that is left.

    A dump of active calls only begins with an unfinished one, of which nothing can be said.
    """
    first = _first(dump)
    finished = first is not None and first.state is CallState.COMPLETED
    return first.order or 0 if first is not None and finished else 0


def _overwritten(dump: Dump, known: Sequence[Row], statuses: Mapping[str, Status]) -> bool:
    """Return whether a wrapped ring lost calls that are not finished: then its oldest is none.

    ``pg_status`` tells up to which number calls are finished. Where a group has both, it may
    count collectives or sends, and over gloo it counts neither. Without it, a ring that begins
    with an unfinished call may have held older ones.
    """
    first = _first(dump)
    if first is None or not first.order:
        return False
    if "pg_status" not in dump.top:  # before torch 2.5
        began = first.p2p or first.retired or first.state is CallState.COMPLETED
        return not began and len(dump.entries) >= SMALLEST_RING
    if not dump.whole or all(row.name.library == GLOO for row in known):
        return False
    numbers: dict[str, set[int | None]] = defaultdict(set)
    waiting: dict[str, set[int | None]] = defaultdict(set)
    kinds: dict[str, set[bool]] = defaultdict(set)
    for row in known:
        name = row.group[0]
        kinds[name].add(row.p2p)
        numbers[name].add(row.launch)
        if row.state is CallState.COMPLETED:
            waiting[name].discard(row.launch)  # the end of a batch
        else:
            waiting[name].add(row.launch)
    for name, status in statuses.items():
        oldest = min((n for n in waiting[name] if n is not None), default=None)
        if len(kinds[name]) != 1 or oldest is None or status.completed is None:
            continue
        if oldest > status.completed + 1 and oldest - 1 not in numbers[name]:
            return True
    return False


def _active_only(dump: Dump, known: Sequence[Row]) -> bool:
    """Return whether all calls but the open ones were left out, so that other groups are idle.

    A recorder that is switched off has no entries either, but then ``pg_status`` counts open calls.
    """
    statuses = status_by_id(dump.top).values()
    if not dump.whole or not any(status.completed for status in statuses):
        return False
    if any(row.name.library == GLOO or row.state is CallState.COMPLETED for row in known):
        return False
    return bool(known) or all(status.completed == status.enqueued for status in statuses)


def _more_than_recorded(known: Sequence[Row], statuses: Mapping[str, Status]) -> bool:
    """Return whether there are calls that gloo makes and does not record: sends and receives.

    ``pg_status`` counts them with the collectives once they are done. Groups without any entry
    leave a gap in the numbers that the process gives to its groups.
    """
    last: dict[str, int] = defaultdict(int)
    for row in known:
        last[row.group[0]] = max(last[row.group[0]], row.seq or 0)
    ids = {row.pg_id for row in known if row.pg_id is not None}
    if ids and len(ids) <= max(ids):
        return True
    return any(
        name in last and (status.enqueued or 0) > last[name] for name, status in statuses.items()
    )


def _whose(
    place: Place, groups: Mapping[str, Group], known: Sequence[Row]
) -> tuple[Who, Gap | None]:
    """Decide whose dump it is: by its content where that is clear, else by its name."""
    who = place.who
    possible = _rank_by_content(groups, known)
    if len(possible) == 1:
        (rank,) = possible
        trust = max(who.trust, Trust.FLIGHT_RECORDER)
        decided = replace(who, rank=rank, trust=trust)
        if who.rank in {None, rank}:
            return decided, None
    elif who.rank is None or not possible or who.rank in possible:
        return who, None
    else:
        decided = replace(who, rank=None, trust=Trust.NONE)
    return decided, Gap(
        what=f"the rank of {place.source.file}",
        why=f"it is named as rank {who.rank}, but its groups are those of rank {fold(possible)}",
        cost="it was left out" if decided.rank is None else f"it was taken as rank {decided.rank}",
        remedy="Name each dump after the rank that wrote it",
        who=decided,
        source=place.source,
    )


def _rank_by_content(groups: Mapping[str, Group], known: Sequence[Row]) -> set[int]:
    """Return the ranks that the dump can be of; empty where it does not say.

    It is a member of all its groups, and sends under its own rank within the group.
    """
    for row in known:
        me, group = row.name.me, groups.get(row.group[0])
        if me is not None and group is not None and group.ranks and me < len(group.ranks):
            return {group.ranks[me]}
    members = sorted((group.ranks for group in groups.values() if group.ranks), key=len)
    possible = set(members[0]) if members else set()
    for ranks in members[1:]:
        if len(possible) < 2:
            break
        possible.intersection_update(ranks)
    return possible


def _settings(
    top: Mapping[object, object], known: Sequence[Row], place: Place
) -> Iterator[Setting]:
    libraries = {row.name.library for row in known} - {""}
    backend = libraries.pop() if len(libraries) == 1 else ""
    nccl = text(top.get("nccl_version"))
    if backend.startswith("nccl"):
        nccl = nccl or text(top.get("comm_lib_version"))
    if nccl:
        yield Setting(name="nccl", value=nccl, who=place.who, source=place.source)
    if backend:
        yield Setting(name="backend", value=backend, who=place.who, source=place.source)
