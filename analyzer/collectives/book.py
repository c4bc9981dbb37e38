"""The book: tracks from all sources, merged into one table per process group.

A table has a standing for each member of its group: how far it came, and its calls by sequence
number. Sources count in different spaces (torch counts calls per group, NCCL per communicator),
and only what shares a space is compared. Groups with equal names and different ranks are
different groups; where no source lists the members, they are concluded from who uses the name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.records import Disagreement
from whyhang.analyzer.facts import (
    MAX_RANKS,
    Call,
    CallState,
    Group,
    Record,
    Source,
    Track,
    fold,
    replace,
)

SPACES = {
    "flight-recorder": "torch",
    "watchdog": "torch",
    "overtaken": "torch",  # see OVERTAKEN
    "fingerprint": "fingerprint",  # counted by a wrapper, from 0
    "nccl-coll": "nccl",
    "ras": "nccl",
    "ras-text": "ras-text",  # counts of the operations in which ranks differ, not of all
    "stack": "stack",
    "state": "torch",  # see STATE
}
"""Which numbers of different kinds of evidence count the same thing."""

PREFERENCE = {"flight-recorder": 0, "watchdog": 1, "fingerprint": 2, "nccl-coll": 3, "ras": 4}
"""Whom to believe first where several tell of one rank and group."""

OVERTAKEN = "overtaken"
"""The kind of a track whose dump is older than others: it tells of nothing but membership."""

STATE = "state"
"""The kind of a track that says what the stack or the end of a rank proves of its calls."""

COUNTERS = frozenset({"ras", "ras-text"})
"""Counts of launches, read while ranks run: those of a job that moves differ at any moment."""

Key = tuple[str, str, tuple[int, ...] | None]  # space, name, ranks


class Standing(Record):
    """How far one rank came on one group. ``calls`` are its collectives by number.

    ``known`` is False where only its absence from a group of others says that it never used it.
    ``exact`` is False where the numbers may count sends and receives as well, or the last
    calls are not known.
    """

    rank: int
    enqueued: int | None = None
    completed: int | None = None
    calls: dict[int, Call] = {}  # noqa: RUF012 - msgspec copies it for each record
    p2p: tuple[Call, ...] = ()
    tracks: tuple[Track, ...] = ()
    known: bool = True
    exact: bool = True

    @property
    def source(self) -> Source | None:
        """Where the surest of its tracks was read."""
        return self.tracks[0].source if self.tracks else None

    @property
    def idle(self) -> bool:
        """Whether none of its calls is open, and no more is known."""
        return self.enqueued is None and any(track.idle for track in self.tracks)

    @property
    def unrecorded(self) -> bool:
        """Whether it may stand in a call that its recorder leaves out."""
        return any(track.unrecorded for track in self.tracks)


class Table(Record):
    """One group in one space. ``name`` is the one to show, unique within the book.

    ``silent`` counts ranks that nothing speaks of and that may be members, too, where the
    membership was concluded from those that spoke.
    """

    group: Group
    name: str
    space: str
    members: tuple[int, ...]
    standings: dict[int, Standing]
    absent: frozenset[int]
    silent: int = 0

    @property
    def inferred(self) -> bool:
        """Whether the membership was concluded."""
        return self.group.inferred


class Book(Record):
    """All tables. ``present`` are ranks of which at least one track speaks (stacks aside).

    ``older`` are those of which only overtaken dumps speak.
    """

    tables: tuple[Table, ...]
    present: frozenset[int]
    stacks: dict[int, Track]
    disagreements: tuple[Disagreement, ...]
    moved: frozenset[int]
    older: frozenset[int] = frozenset()


def open_book(tracks: Iterable[Track], groups: Iterable[Group], world_size: int | None) -> Book:
    """Merge tracks into tables."""
    ranked = [track for track in tracks if track.who.rank is not None]
    latest, moved = _latest(ranked)
    single, doubles = _one_dump_per_rank(latest)
    stacks = {_rank(t): t for t in single if SPACES.get(t.kind) == "stack"}
    counted = [t for t in single if SPACES.get(t.kind) != "stack"]
    present = frozenset(_rank(track) for track in counted if track.kind != OVERTAKEN)
    recorded = frozenset(_rank(track) for track in counted if track.kind == "flight-recorder")
    by_key = _by_group(counted, groups, world_size, present)
    names = _names(by_key)
    everyone = frozenset(range(world_size or 1 + max(present, default=-1)))
    disagreements = list(doubles)
    tables = []
    for key, (group, own) in by_key.items():
        table, doubts = _table(group, names[key], key[0], own, recorded)
        unheard = everyone.difference(present, table.members) if group.inferred else ()
        tables.append(replace(table, silent=len(unheard)))
        disagreements += doubts
    return Book(
        tables=tuple(tables),
        present=present,
        stacks=stacks,
        disagreements=tuple(disagreements),
        moved=moved,
        older=frozenset(_rank(track) for track in counted) - present,
    )


def _rank(track: Track) -> int:
    rank = track.who.rank
    return -1 if rank is None else rank


def _latest(tracks: Sequence[Track]) -> tuple[list[Track], frozenset[int]]:
    """Keep the last look of each rank and kind; say who went on since an earlier one."""
    last: dict[tuple[int, str], int] = {}
    for track in tracks:
        key = (_rank(track), track.kind)
        last[key] = max(last.get(key, 0), track.look)
    kept = [track for track in tracks if track.look == last[_rank(track), track.kind]]
    if len(kept) == len(tracks):
        return kept, frozenset()
    now = {(_rank(t), t.kind, t.group): t.enqueued for t in kept}
    went_on = [
        track
        for track in tracks
        if track.look < last[_rank(track), track.kind]
        and now.get((_rank(track), track.kind, track.group)) != track.enqueued
    ]
    moving = {(track.kind, track.group.name) for track in went_on if track.kind in COUNTERS}
    kept = [track for track in kept if (track.kind, track.group.name) not in moving]
    return kept, frozenset(_rank(track) for track in went_on)


def _one_dump_per_rank(tracks: Sequence[Track]) -> tuple[list[Track], list[Disagreement]]:
    """Where two recorder dumps are of one rank, believe the one with the newest call."""
    files: dict[int, dict[str, list[Track]]] = defaultdict(lambda: defaultdict(list))
    for track in tracks:
        if track.kind == "flight-recorder":
            files[_rank(track)][track.source.file].append(track)
    dropped: set[tuple[int, str]] = set()
    said = []
    for rank, dumps in files.items():
        if len(dumps) < 2:
            continue
        best, *others = sorted(dumps, key=lambda file: _newest(dumps[file]), reverse=True)
        dropped.update((rank, file) for file in others)
        said.append(
            Disagreement(
                rank=rank,
                group="",
                what="several recorder dumps are of this rank",
                believed=f"{best} has the newest call",
                other=f"left out: {', '.join(sorted(others))}",
                sources=tuple(Source(file=file) for file in (best, *others)),
            )
        )
    if not dropped:
        return list(tracks), []
    kept = [
        t for t in tracks if (_rank(t), t.source.file) not in dropped or t.kind != "flight-recorder"
    ]
    return kept, said


def _newest(tracks: Sequence[Track]) -> tuple[float, int]:
    times = [c.created_at for t in tracks for c in t.calls if c.created_at is not None]
    return max(times, default=0.0), sum(t.enqueued or 0 for t in tracks)


def _by_group(
    tracks: Sequence[Track],
    groups: Iterable[Group],
    world_size: int | None,
    present: frozenset[int],
) -> dict[Key, tuple[Group, list[Track]]]:
    """Sort tracks by group, finding the members of groups whose source does not list them."""
    described: dict[str, dict[tuple[int, ...], Group]] = defaultdict(dict)
    # Readers share groups among ranks; a list of 10,000 members is hashed once, not per rank.
    every = {id(group): group for group in groups}
    every.update((id(track.group), track.group) for track in tracks)
    for group in every.values():
        if group.ranks is not None and not group.inferred:
            for name in {group.name, group.description or group.name}:
                described[name].setdefault(group.ranks, group)
    found: dict[Key, tuple[Group, list[Track]]] = {}
    nameless: dict[tuple[str, str], list[Track]] = defaultdict(list)
    shared: dict[tuple[str, int], list[Track]] = {}
    for track in tracks:
        group, space = track.group, SPACES.get(track.kind, track.kind)
        if group.ranks is None:
            named = described.get(group.name, {})
            fitting = [known for ranks, known in named.items() if _rank(track) in ranks]
            if len(fitting) != 1:
                nameless[space, group.name].append(track)
                continue
            group = fitting[0]
        own = shared.get((space, id(group)))
        if own is None:
            _, own = found.setdefault((space, group.name, group.ranks), (group, []))
            shared[space, id(group)] = own
        own.append(track)
    for (space, name), own in nameless.items():
        group = _concluded(own, world_size, present)
        found.setdefault((space, name, None), (group, []))[1].extend(own)
    return found


def _concluded(tracks: Sequence[Track], world_size: int | None, present: frozenset[int]) -> Group:
    """Conclude who is in a group: all ranks in the default one, else those that use its name."""
    said = [track.group for track in tracks]
    descriptions = Counter(group.description for group in said if group.description)
    description = descriptions.most_common(1)[0][0] if descriptions else None
    ranks = {_rank(track) for track in tracks}
    default = description == "default_pg" or said[0].name in {"0", "default_pg"}
    if default:  # its ranks begin at 0, and one of which nothing is told is absent
        ranks |= set(range(world_size or 1 + max((*ranks, *present))))
    ranks |= _between(tracks)
    return Group(
        name=said[0].name,
        ranks=tuple(sorted(ranks)),
        description=description,
        inferred=not (default and world_size is not None),
    )


def _between(tracks: Sequence[Track]) -> set[int]:
    """Give the ranks of a group that its own numbers prove, also those that are silent.

    If ranks 4, 5 and 7 are numbers 0, 1 and 3 of it, rank 6 is number 2: groups are cut out of
    the world evenly. Nothing is concluded where the numbers do not lie on one line.
    """
    numbers = {_rank(track): track.number for track in tracks if track.number is not None}
    places = {number: rank for rank, number in numbers.items()}
    if len(places) < max(MIN_PLACES, len(numbers)):
        return set()
    (first, start), (last, end) = min(places.items()), max(places.items())
    step = (end - start) // max(1, last - first)
    if step < 1 or any(rank != start + step * (n - first) for n, rank in places.items()):
        return set()
    low = start - step * first
    return set(range(low, end + 1, step)) if low >= 0 and last < MAX_RANKS else set()


MIN_PLACES = 3  # two points lie on a line always


def _names(groups: Mapping[Key, tuple[Group, list[Track]]]) -> dict[Key, str]:
    """Choose names to show: the description where it is telling, with more where it is shared."""
    plain = {key: group.description or group.name for key, (group, _) in groups.items()}
    shared = Counter((key[0], name) for key, name in plain.items())
    names: dict[Key, str] = {}
    for key, name in plain.items():
        group = groups[key][0]
        if shared[key[0], name] > 1:
            ranks = fold(group.ranks) if group.ranks and len(group.ranks) <= 64 else group.name
            names[key] = f"{name} (ranks {ranks})" if group.ranks else f"{name} ({group.name})"
        else:
            names[key] = name
    return names


def _table(
    group: Group, name: str, space: str, tracks: Sequence[Track], recorded: frozenset[int]
) -> tuple[Table, list[Disagreement]]:
    by_rank: dict[int, list[Track]] = defaultdict(list)
    for track in tracks:
        by_rank[_rank(track)].append(track)
    doubts: list[Disagreement] = []
    standings: dict[int, Standing] = {}
    for rank, own in by_rank.items():
        if len(own) > 1:
            own.sort(key=lambda track: (PREFERENCE.get(track.kind, 9), -(track.enqueued or 0)))
            doubts += _doubts(rank, name, own)
        standings[rank] = _standing(rank, own)
    if any(standing.p2p for standing in standings.values()):
        standings = {
            rank: standing if _has_calls(standing) else replace(standing, exact=False)
            for rank, standing in standings.items()
        }
    members = group.ranks or tuple(sorted(standings))
    for rank in members if space == "torch" and not group.inferred else ():
        # A recorder that speaks, and not of this group, has seen no call of it.
        if rank not in standings and rank in recorded:
            standings[rank] = Standing(rank=rank, enqueued=0, completed=0, known=False)
    absent = frozenset(rank for rank in members if rank not in standings)
    table = Table(
        group=group, name=name, space=space, members=members, standings=standings, absent=absent
    )
    return table, doubts


def _has_calls(standing: Standing) -> bool:
    return bool(standing.calls or standing.p2p)


def _standing(rank: int, tracks: Sequence[Track]) -> Standing:
    """Join what several sources say of one rank and group, the surest first."""
    calls: dict[int, Call] = {}
    p2p: tuple[Call, ...] = ()
    for track in tracks:
        if not p2p:
            p2p = tuple(call for call in track.calls if call.p2p)
        for call in track.calls:
            if not call.p2p and call.seq is not None:
                calls.setdefault(call.seq, call)
    enqueued = next((t.enqueued for t in tracks if t.enqueued is not None), None)
    completed = next((t.completed for t in tracks if t.completed is not None), None)
    if enqueued is None and calls:
        enqueued = max(calls)
    if completed is None and enqueued is not None:
        # A call of unknown state (a log line that announced it) says nothing of its end.
        told = {n: c.state for n, c in calls.items() if c.state is not CallState.UNKNOWN}
        unfinished = [n for n, state in told.items() if state is not CallState.COMPLETED]
        completed = min(unfinished) - 1 if unfinished else None
    return Standing(
        rank=rank,
        enqueued=enqueued,
        completed=completed,
        calls=calls,
        p2p=p2p,
        tracks=tuple(tracks),
        exact=not any(track.cut for track in tracks),
    )


def _doubts(rank: int, name: str, tracks: Sequence[Track]) -> list[Disagreement]:
    """Say where sources of one rank and group differ."""
    first = tracks[0]
    found = []
    for other in tracks[1:]:
        if other.kind == first.kind:
            continue
        for what in ("enqueued", "completed"):
            mine, theirs = getattr(first, what), getattr(other, what)
            if mine is not None and theirs is not None and mine != theirs:
                found.append(
                    Disagreement(
                        rank=rank,
                        group=name,
                        what=f"last {what}",
                        believed=f"#{mine} ({first.kind})",
                        other=f"#{theirs} ({other.kind})",
                        sources=(first.source, other.source),
                    )
                )
    return found
