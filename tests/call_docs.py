"""Recorded calls for tests: tracks of ranks, and where in the code they were made."""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.collectives import CallFinding, RecordedCalls
from whyhang.analyzer.facts import Call, CallState, Frame, Group, Source, Track, Trust, Who

WORLD = Group(name="0", ranks=(0, 1, 2, 3), description="default_pg")
DONE, OPEN = CallState.COMPLETED, CallState.SCHEDULED


def at(line: int, function: str = "step", *outer: tuple[str, int]) -> tuple[Frame, ...]:
    """Make a stack, innermost first: torch's frame, the user's, and those around it."""
    torch = Frame(function="all_reduce", file="/x/site-packages/torch/distributed/c10d.py", line=1)
    return (torch, *(Frame(function=f, file="/w/train.py", line=n) for f, n in
                     ((function, line), *outer)))  # fmt: skip


def call(
    op: str = "all_reduce",
    seq: int = 1,
    state: CallState = DONE,
    *,
    size: Sequence[int] = (8,),
    out: Sequence[Sequence[int]] | None = None,
    dtype: str = "Float",
    line: int = 10,
    order: int | None = None,
    frames: tuple[Frame, ...] | None = None,
) -> Call:
    return Call(
        op=op,
        seq=seq,
        state=state,
        input_sizes=(tuple(size),) if size is not None else None,
        output_sizes=tuple(tuple(shape) for shape in out) if out is not None else None,
        dtypes=(dtype,) if dtype else (),
        frames=at(line) if frames is None else frames,
        order=seq if order is None else order,
    )


def p2p(
    op: str, peer: int, seq: int = 1, state: CallState = OPEN, *, line: int = 10, order: int = 1
) -> Call:
    return Call(op=op, seq=seq, state=state, p2p=True, peer=peer, frames=at(line), order=order)


def track(
    rank: int,
    *calls: Call,
    group: Group = WORLD,
    kind: str = "flight-recorder",
    enqueued: int | None = None,
    completed: int | None = None,
    look: int = 0,
    file: str | None = None,
    library: str = "nccl",
    unrecorded: bool = False,
    in_motion: bool = False,
) -> Track:
    collectives = [c for c in calls if not c.p2p]
    unfinished = [c.seq or 0 for c in collectives if c.state is not DONE]
    last = max((c.seq or 0 for c in collectives), default=enqueued)
    return Track(
        who=Who(rank=rank, trust=Trust.FILE_NAME),
        group=group,
        kind=kind,
        source=Source(file=file or f"rank_{rank}"),
        enqueued=last if enqueued is None else enqueued,
        completed=(min(unfinished) - 1 if unfinished else last) if completed is None else completed,
        calls=calls,
        look=look,
        library=library,
        unrecorded=unrecorded,
        in_motion=in_motion,
    )


def only(report: RecordedCalls) -> CallFinding:
    causes = [finding for finding in report.findings if finding.cause]
    assert len(causes) == 1, [finding.says for finding in causes]
    return causes[0]


def stuck_at(seq: int, **changes: object) -> tuple[Call, ...]:
    """Give calls of which the last is open."""
    before = [call(seq=n, line=n % 3) for n in range(max(1, seq - 4), seq)]
    return (*before, call(seq=seq, state=OPEN, line=seq % 3, **changes))  # type: ignore[arg-type]


def mesh(*ranks: int, name: str) -> Group:
    return Group(name=name, ranks=ranks, description=name)
