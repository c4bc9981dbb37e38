"""From a dump to facts: who wrote it, the groups it knows, how far the rank came on each.

A dump does not say whose it is; its file name usually does. The groups' member lists and the
names of sends and receives bear that out or contradict it.

Whether the rank was still going on as its dump was written: NCCL's watchdog writes one when a call
has timed out; over gloo nothing does. Anyone may ask for one at any time. The file's own time
against the times of its calls tells: a rank whose last call is no older than the pauses it makes
anyway shows no sign of a hang.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

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
from whyhang.collectors.flight_recorder.contents import (
    KEPT_AT_MOST,
    KEPT_COMPLETED,
    Contents,
    calls,
    worth_keeping,
)
from whyhang.collectors.flight_recorder.entries import GLOO, Row, text
from whyhang.collectors.flight_recorder.excerpt import DumpExcerpt
from whyhang.collectors.flight_recorder.groups import GroupStatus

KIND = "flight-recorder"


class DumpFile(Record):
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


def facts(dump: DumpExcerpt, file: DumpFile) -> Iterator[Fact]:
    """Yield all that a dump says."""
    contents = Contents(dump)
    who, doubt = _whose(contents, file)
    file = replace(file, who=who)
    if doubt is not None:
        yield doubt
    yield from contents.groups.values()
    yield from _settings(contents, file)
    if contents.overwritten():
        yield file.gap(
            "its ring was too small for what was under way: calls that are not finished "
            "were overwritten by later ones",
            "the call that holds this rank up is not known from it",
            "Set a larger TORCH_FR_BUFFER_SIZE for the next run",
        )
        return
    tracks = list(_tracks(contents, file))
    yield from tracks
    if any(track.unrecorded for track in tracks):
        yield file.gap(
            "its rank also makes calls that gloo does not record: sends and receives",
            "it may stand in one of those, unseen",
            "Take the stacks of the ranks while they hang, with whyhang PID",
        )
    if not tracks:
        yield file.gap(
            "it holds no calls (the recorder may have been off: TORCH_FR_BUFFER_SIZE=0, "
            "the default before torch 2.11)",
            "where this rank stands is not known from it",
            "Set TORCH_FR_BUFFER_SIZE=2000 for the next run",
        )


def _tracks(contents: Contents, file: DumpFile) -> Iterator[Track]:
    dump, statuses = contents.dump, contents.statuses
    lost, unrecorded = contents.lost(), contents.unrecorded()
    in_motion = moves(contents.rows, file.written_at)
    of_active_calls = contents.of_active_calls()
    for name, group in contents.groups.items():
        own = contents.by_group.get(name, [])
        if not own and name not in statuses and not of_active_calls:
            continue
        status = statuses.get(name, GroupStatus(enqueued=None, completed=None))
        partial = not dump.whole or len(own) > KEPT_AT_MOST
        track = Track(
            who=file.who,
            group=group,
            kind=KIND,
            source=file.source,
            enqueued=status.enqueued,
            completed=status.completed,
            lost=lost,
            look=file.look,
            detail=functools.partial(file.again, name) if partial else None,
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
    numbers = (row.collective for row in own if row.collective is not None)
    enqueued = max(numbers, default=None)
    unfinished = [
        c.seq for c in collectives if c.state is not CallState.COMPLETED and c.seq is not None
    ]
    return replace(
        track,
        enqueued=enqueued,
        completed=min(unfinished) - 1 if unfinished else enqueued,
        calls=worth_keeping(issued, KEPT_COMPLETED if track.detail else KEPT_AT_MOST),
    )


def _whose(contents: Contents, file: DumpFile) -> tuple[Who, Gap | None]:
    """Decide whose dump it is: by its content where that is clear, else by its name."""
    who = file.who
    possible = _rank_by_content(contents)
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
        what=f"the rank of {file.source.file}",
        why=f"it is named as rank {who.rank}, but its groups are those of rank {fold(possible)}",
        cost="it was left out" if decided.rank is None else f"it was taken as rank {decided.rank}",
        remedy="Name each dump after the rank that wrote it",
        who=decided,
        source=file.source,
    )


def _rank_by_content(contents: Contents) -> set[int]:
    """Return the ranks that the dump can be of; empty where it does not say.

    It is a member of all its groups, and sends under its own rank within the group.
    """
    for row in contents.rows:
        me, group = row.name.me, contents.groups.get(row.group[0])
        if me is not None and group is not None and group.ranks and me < len(group.ranks):
            return {group.ranks[me]}
    members = sorted((group.ranks for group in contents.groups.values() if group.ranks), key=len)
    possible = set(members[0]) if members else set()
    for ranks in members[1:]:
        if len(possible) < 2:
            break
        possible.intersection_update(ranks)
    return possible


def _settings(contents: Contents, file: DumpFile) -> Iterator[Setting]:
    top = contents.dump.top
    libraries = {row.name.library for row in contents.rows} - {""}
    backend = libraries.pop() if len(libraries) == 1 else ""
    nccl = text(top.get("nccl_version"))
    if backend.startswith("nccl"):
        nccl = nccl or text(top.get("comm_lib_version"))
    if nccl:
        yield Setting(name="nccl", value=nccl, who=file.who, source=file.source)
    if backend:
        yield Setting(name="backend", value=backend, who=file.who, source=file.source)


RECENT = 64
"""Calls over which pauses are looked at."""

FEWEST = 8
"""With fewer calls than these nothing is known of a rank's pace."""

LONGER = 2
"""How many times its usual pause a rank may be silent, as no two steps take the same time."""

LONGEST = 30.0
"""Seconds beyond which silence over NCCL is none of a job that moves, whatever its pauses."""

AT_ONCE = 0.5
"""Seconds within which nobody asks for a dump because of a hang, nor a watchdog writes one."""

DEFAULT_LIMIT = 600.0
NEARLY = 0.9
"""The part of its time limit, in seconds, that no call of a moving job has waited for."""

BLURRED = 0.02
"""Seconds of calls that are too few to be those of a job: the times are made up or coarse."""


def moves(rows: Sequence[Row], written_at: float | None) -> bool:
    """Return whether the silence before a dump is no longer than a pause the rank makes anyway.

    The longest pause does not count: programs start slowly once. A file that was copied is
    younger than the dump, which only makes the silence longer.
    """
    over_gloo = all(row.name.library == GLOO for row in rows)
    recent = _in_a_row(rows[-RECENT:] if over_gloo else rows)
    times = sorted(row.created_at for row in recent if row.created_at is not None)
    if written_at is None or not times:
        return False
    silence = written_at - times[-1]
    if not over_gloo and _late(rows, written_at):
        return False
    if not over_gloo and 0 <= silence < AT_ONCE:
        return True  # calls are enqueued in bursts, and only the last burst may have been read
    if len(times) < FEWEST or times[-1] - times[0] < BLURRED:
        return False
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    usual = LONGER * pauses[-2]
    return 0 <= silence < (usual if over_gloo else min(usual, LONGEST))


def _late(rows: Sequence[Row], written_at: float) -> bool:
    """Return whether a call was open for so long that the watchdog may have fired."""
    return any(
        written_at - row.created_at > NEARLY * (row.limit or DEFAULT_LIMIT)
        for row in rows
        if row.state is not CallState.COMPLETED and row.created_at is not None
    )


def _in_a_row(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the last entries that follow each other: others were left out, with their times."""
    start = len(rows) - 1
    while start > 0 and (rows[start].order or 0) == (rows[start - 1].order or 0) + 1:
        start -= 1
    return rows[max(0, start) :]
