"""Tracks of all sources, merged by process group and rank.

Sources count in different spaces (torch counts the calls of a process group, NCCL those of a
communicator), and only what shares a space is compared. Groups with equal names and different
ranks are different groups; where no source lists the members, they are inferred from the ranks
that use the name.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.collectives.groups import (
    COUNTERS,
    OVERTAKEN,
    RECORDER,
    SPACES,
    Disagreement,
    GroupCalls,
    GroupProgress,
    JobCalls,
)
from whyhang.analyzer.facts import (
    MAX_RANKS,
    Call,
    CallState,
    Group,
    Source,
    Track,
    grouped,
    replace,
    spaced,
)

PREFERENCE = {RECORDER: 0, "watchdog": 1, "fingerprint": 2, "nccl-coll": 3, "ras": 4}
"""Which kind of evidence to believe first where several show one rank and group."""

MIN_LOCAL_RANKS = 3
"""Local ranks that must lie on one line to infer others from them: two always do."""

Key = tuple[str, str, tuple[int, ...] | None]  # space, name, ranks


def job_calls(tracks: Iterable[Track], pgs: Iterable[Group], world_size: int | None) -> JobCalls:
    """Merge tracks by process group and rank."""
    ranked = [track for track in tracks if track.who.rank is not None]
    single, disagreements = _one_dump_per_rank(_latest(ranked))
    stacks = {_rank(t): t for t in single if SPACES.get(t.kind) == "stack"}
    counted = [t for t in single if SPACES.get(t.kind) != "stack"]
    present = frozenset(_rank(track) for track in counted if track.kind != OVERTAKEN)
    recorded = frozenset(_rank(track) for track in counted if track.kind == RECORDER)
    by_key = _by_group(counted, pgs, world_size, present)
    names = _names(by_key)
    everyone = frozenset(range(world_size or 1 + max(present, default=-1)))
    groups = []
    for index, (key, (pg, own)) in enumerate(by_key.items()):
        progress = _progress_of_ranks(own)
        members = pg.ranks or tuple(sorted(progress))
        if key[0] == "torch" and not pg.inferred:
            # A recorder that has calls, and none of this group, has seen none of it.
            for rank in members:
                if rank in recorded and rank not in progress:
                    progress[rank] = GroupProgress(rank=rank, enqueued=0, completed=0, known=False)
        groups.append(
            GroupCalls(
                index=index,
                pg=pg,
                name=names[key],
                space=key[0],
                members=members,
                progress=progress,
                absent=frozenset(members).difference(progress),
                silent=len(everyone.difference(present, members)) if pg.inferred else 0,
            )
        )
        for of_rank in progress.values():
            disagreements += _disagreements(of_rank, names[key])
    return JobCalls(
        groups=tuple(groups),
        present=present,
        stacks=stacks,
        disagreements=tuple(disagreements),
        older=frozenset(_rank(track) for track in counted) - present,
    )


def _rank(track: Track) -> int:
    rank = track.who.rank
    return -1 if rank is None else rank


def _latest(tracks: Sequence[Track]) -> list[Track]:
    """Keep the last snapshot of each rank and kind, and no counts that still change."""
    last: dict[tuple[int, str], int] = {}
    for track in tracks:
        key = (_rank(track), track.kind)
        last[key] = max(last.get(key, 0), track.look)
    kept = [track for track in tracks if track.look == last[_rank(track), track.kind]]
    now = {(_rank(t), t.kind, t.group): t.enqueued for t in kept if t.kind in COUNTERS}
    moving = {
        (track.kind, track.group.name)
        for track in tracks
        if track.kind in COUNTERS
        and track.look < last[_rank(track), track.kind]
        and now.get((_rank(track), track.kind, track.group)) != track.enqueued
    }
    return [track for track in kept if (track.kind, track.group.name) not in moving]


def _one_dump_per_rank(tracks: Sequence[Track]) -> tuple[list[Track], list[Disagreement]]:
    """Where several recorder dumps are of one rank, believe the one with the newest call."""
    newest: dict[int, dict[str, tuple[float, int]]] = defaultdict(dict)  # by rank and file
    for track in tracks:
        if track.kind == RECORDER:
            last, count = newest[_rank(track)].get(track.source.file, (0.0, 0))
            last = max((last, *(call.created_at or 0.0 for call in track.calls)))
            newest[_rank(track)][track.source.file] = last, count + (track.enqueued or 0)
    left_out: set[tuple[int, str]] = set()
    disagreements = []
    for rank, files in newest.items():
        best, *others = sorted(files, key=lambda file: files[file], reverse=True)
        left_out.update((rank, file) for file in others)
        if others:
            disagreements.append(
                Disagreement(
                    rank=rank,
                    group="",
                    what="several recorder dumps are of this rank",
                    believed=f"{best} has the newest call",
                    other=f"left out: {', '.join(sorted(others))}",
                    sources=tuple(Source(file=file) for file in (best, *others)),
                )
            )
    kept = [
        track
        for track in tracks
        if track.kind != RECORDER or (_rank(track), track.source.file) not in left_out
    ]
    return kept, disagreements


def _by_group(
    tracks: Sequence[Track], pgs: Iterable[Group], world_size: int | None, present: frozenset[int]
) -> dict[Key, tuple[Group, list[Track]]]:
    """Sort tracks by group; infer the members of groups whose source does not list them."""
    listed: dict[str, dict[tuple[int, ...], Group]] = defaultdict(dict)
    # Readers share groups among ranks; a list of 10,000 members is hashed once, not per rank.
    every = {id(pg): pg for pg in pgs}
    every.update((id(track.group), track.group) for track in tracks)
    for pg in every.values():
        if pg.ranks is not None and not pg.inferred:
            for name in {pg.name, pg.description or pg.name}:
                listed[name].setdefault(pg.ranks, pg)
    by_key: dict[Key, tuple[Group, list[Track]]] = {}
    unlisted: dict[tuple[str, str], list[Track]] = defaultdict(list)
    shared: dict[tuple[str, int], list[Track]] = {}
    for track in tracks:
        pg, space = track.group, SPACES.get(track.kind, track.kind)
        if pg.ranks is None:
            fitting = [
                known for ranks, known in listed.get(pg.name, {}).items() if _rank(track) in ranks
            ]
            if len(fitting) != 1:
                unlisted[space, pg.name].append(track)
                continue
            pg = fitting[0]
        own = shared.get((space, id(pg)))
        if own is None:
            _, own = by_key.setdefault((space, pg.name, pg.ranks), (pg, []))
            shared[space, id(pg)] = own
        own.append(track)
    for (space, name), own in unlisted.items():
        by_key[space, name, None] = (_inferred(own, world_size, present), own)
    return by_key


def _inferred(tracks: Sequence[Track], world_size: int | None, present: frozenset[int]) -> Group:
    """Infer who is in a group: all ranks in the default one, else those that use its name."""
    pgs = [track.group for track in tracks]
    descriptions = Counter(pg.description for pg in pgs if pg.description)
    description = descriptions.most_common(1)[0][0] if descriptions else None
    ranks = {_rank(track) for track in tracks}
    default = description == "default_pg" or pgs[0].name in {"0", "default_pg"}
    if default:  # its ranks begin at 0, and one without a record is absent
        ranks |= set(range(world_size or 1 + max((*ranks, *present))))
    ranks |= _by_local_ranks(tracks)
    return Group(
        name=pgs[0].name,
        ranks=tuple(sorted(ranks)),
        description=description,
        inferred=not (default and world_size is not None),
    )


def _by_local_ranks(tracks: Sequence[Track]) -> set[int]:
    """Return the ranks of a group that its local ranks prove, also those without a record.

    If ranks 4, 5 and 7 are numbers 0, 1 and 3 of it, rank 6 is number 2: groups are cut out of
    the world evenly. What one of them gathers tells how many they are. Nothing is inferred where
    the numbers do not lie on one line.
    """
    numbers = {_rank(track): track.number for track in tracks if track.number is not None}
    places = {number: rank for rank, number in numbers.items()}
    sizes = {size for track in tracks for call in track.calls if (size := call.group_size)}
    size = next(iter(sizes)) if len(sizes) == 1 else 0
    if len(places) < max(2 if size else MIN_LOCAL_RANKS, len(numbers)):
        return set()
    (first, start), (last, end) = min(places.items()), max(places.items())
    step = (end - start) // max(1, last - first)
    if step < 1 or any(rank != start + step * (n - first) for n, rank in places.items()):
        return set()
    low = start - step * first
    high = max(end, low + step * (size - 1))
    return set(range(low, high + 1, step)) if low >= 0 and high < MAX_RANKS else set()


def _names(by_key: Mapping[Key, tuple[Group, list[Track]]]) -> dict[Key, str]:
    """Choose names to show: the description where there is one, with more where it is shared."""
    names = {key: pg.description or pg.name for key, (pg, _) in by_key.items()}
    for more in ("ranks {ranks}", "{name}, ranks {ranks}"):  # long lists may begin alike
        shared = Counter((key[0], name) for key, name in names.items())
        for key, name in [*names.items()]:
            pg = by_key[key][0]
            if shared[key[0], name] > 1:
                aside = more.format(name=pg.name, ranks=spaced(pg.ranks)) if pg.ranks else pg.name
                names[key] = f"{pg.description or pg.name} ({aside})"
    return names


def _progress_of_ranks(tracks: Sequence[Track]) -> dict[int, GroupProgress]:
    progress = {rank: _progress(rank, own) for rank, own in grouped(tracks, _rank).items()}
    p2p = any(own.p2p for own in progress.values())
    for rank, own in progress.items():
        if p2p and not (own.calls or own.p2p):
            progress[rank] = replace(own, exact=False)
    return progress


def _progress(rank: int, tracks: Iterable[Track]) -> GroupProgress:
    """Join what several sources say of one rank and group, the surest first."""
    tracks = sorted(tracks, key=lambda t: (PREFERENCE.get(t.kind, 9), -(t.enqueued or 0)))
    calls: dict[int, Call] = {}
    p2p: tuple[Call, ...] = ()
    for track in tracks:
        p2p = p2p or tuple(call for call in track.calls if call.p2p)
        for call in track.calls:
            if not call.p2p and call.seq is not None:
                calls.setdefault(call.seq, call)
    enqueued = next((t.enqueued for t in tracks if t.enqueued is not None), None)
    completed = next((t.completed for t in tracks if t.completed is not None), None)
    if enqueued is None and calls:
        enqueued = max(calls)
    if completed is None and enqueued is not None:
        # A call of unknown state (a log line that announced it) says nothing of its end.
        ended = (CallState.UNKNOWN, CallState.COMPLETED)
        unfinished = [seq for seq, call in calls.items() if call.state not in ended]
        completed = min(unfinished) - 1 if unfinished else None
    return GroupProgress(
        rank=rank,
        enqueued=enqueued,
        completed=completed,
        calls=calls,
        p2p=p2p,
        tracks=tuple(tracks),
        exact=not any(track.cut for track in tracks),
    )


def _disagreements(progress: GroupProgress, name: str) -> list[Disagreement]:
    return [
        Disagreement(
            rank=progress.rank,
            group=name,
            what=f"last {what}",
            believed=f"#{believed} ({first.kind})",
            other=f"#{differs} ({other.kind})",
            sources=(first.source, other.source),
        )
        for first in progress.tracks[:1]
        for other in progress.tracks[1:]
        for what in ("enqueued", "completed")
        for believed, differs in [(getattr(first, what), getattr(other, what))]
        if other.kind != first.kind and None not in (believed, differs) and believed != differs
    ]
