"""What stacks and ends prove of the recorded calls of ranks that left no record.

The other way round than ``beside_stacks``: a rank that stands in an operation which records show
open once, and only once, stands in that call; one that stands elsewhere has no call open at all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.collectives.groups import COUNTERS, SPACES, STATE
from whyhang.analyzer.collectives.mismatch import family
from whyhang.analyzer.facts import (
    Call,
    CallState,
    Group,
    RasReport,
    Source,
    Track,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.beside_stacks import state_with_end
from whyhang.analyzer.rank_state.from_logs.ends import End
from whyhang.analyzer.rank_state.from_logs.gave_up import at_work_until_ended
from whyhang.analyzer.rank_state.state import NOT_WAITING, RankState, Status
from whyhang.analyzer.stacks import Place, WaitKind

DEFAULT_NAMES = frozenset({"0", "default_pg"})


def records_of(
    job: Job, states: Sequence[RankState], tracks: Sequence[Track], ends: Mapping[int, End]
) -> Iterator[Track]:
    """Yield what stacks and ends prove about ranks without a record, for groups with records."""
    recorded = {t.who.rank for t in tracks if t.who.rank is not None and t.kind != "stack"}
    torch_tracks = [t for t in tracks if SPACES.get(t.kind) == "torch" and t.who.rank in recorded]
    groups = {id(track.group): track.group for track in torch_tracks}
    open_calls = _open_calls(torch_tracks)
    at_work = at_work_until_ended(job, ends)
    for state in states:
        rank = job.members[state.member].rank
        if rank is None or rank in recorded:
            continue
        end = ends.get(rank)
        stopped = end is not None and (end.own or rank in at_work)
        status = state_with_end(job.members[state.member], replace(state, end=end)).status
        if status in NOT_WAITING or (status is Status.UNSEEN and stopped):
            source = end.source if end is not None else _source(job, state)
            for group in groups.values():
                if source is not None and _may_belong(group, rank):
                    yield _record(rank, group, source)
        elif (source := _source(job, state)) is not None and state.place is not None:
            call = _call_of(state.place, open_calls)
            if call is not None and _may_belong(call[0], rank):
                yield _record(rank, call[0], source, call[1])


def _open_calls(tracks: Iterable[Track]) -> dict[tuple[str, int, str], tuple[Group, Call]]:
    calls: dict[tuple[str, int, str], tuple[Group, Call]] = {}
    for track in tracks:
        for call in track.calls:
            if call.state is not CallState.COMPLETED and not call.p2p and call.seq is not None:
                key = (track.group.name, call.seq, family(call.op))
                calls.setdefault(key, (track.group, call))
    return calls


def _call_of(
    place: Place, open_calls: Mapping[tuple[str, int, str], tuple[Group, Call]]
) -> tuple[Group, Call] | None:
    """Find the one open call that a place without a record can be in.

    Where only one number of one group is open, a rank in another operation stands in that
    number as well, and calls something else there.
    """
    if place.kind is not WaitKind.COLLECTIVE or not place.op:
        return None
    op = family(place.op)
    alike = [call for (_, _, name), call in open_calls.items() if name == op]
    if alike:
        return alike[0] if len(alike) == 1 else None
    if len({(name, seq) for name, seq, _ in open_calls}) != 1:
        return None
    group, call = next(iter(open_calls.values()))
    return group, replace(call, op=place.op, input_sizes=None, output_sizes=None, dtypes=())


def _source(job: Job, state: RankState) -> Source | None:
    member = job.members[state.member]
    seen = member.dumps[-1] if member.dumps else member.last
    return seen.source if seen is not None else None


def _may_belong(group: Group, rank: int) -> bool:
    if group.ranks is not None:
        return rank in group.ranks
    return group.description == "default_pg" or group.name in DEFAULT_NAMES


def _record(rank: int, group: Group, source: Source, call: Call | None = None) -> Track:
    who = Who(rank=rank, trust=Trust.CONTENT)
    track = Track(who=who, group=group, kind=STATE, source=source)
    if call is None or call.seq is None:
        return replace(track, idle=True)
    inside = Call(op=call.op, seq=call.seq, state=CallState.SCHEDULED)
    return replace(track, enqueued=call.seq, completed=call.seq - 1, calls=(inside,))


def ranked_tracks(job: Job) -> tuple[Track, ...]:
    """Fill in the rank of tracks whose source has a pid only.

    A report that tells only of groups in which ranks differ tells, by its silence, that those
    of an earlier report no longer do.
    """
    last = max((report.number for report in job.of(RasReport)), default=0)
    still = {(t.kind, t.group.name) for t in job.tracks if t.look == last}
    told = (t for t in job.tracks if t.kind not in COUNTERS or (t.kind, t.group.name) in still)
    return tuple(
        replace(track, who=replace(track.who, rank=member.rank, trust=member.trust))
        if track.who.rank is None and (member := job.member_of(track.who)) is not None
        else track
        for track in told
    )
