"""The collective of a finding, as far as records or a stack say it."""

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.report import Collective, Location
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import short
from whyhang.analyzer.wait_graph import PendingOperation


def site_location(frame: Frame | None) -> Location | None:
    """Return the place of a recorded call, without its source lines."""
    if frame is None:
        return None
    return Location(file=short(frame.file), line=frame.line, function=frame.function)


def call_of(case: Case, waiters: Iterable[int]) -> Collective | None:
    """Name the collective that the waiting ranks are in, as far as records or a stack say."""
    chosen = set(waiters)
    kinds = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.MPI}
    for operation in case.graph.operations:
        if chosen & set(operation.members) and operation.kind in kinds:
            return collective_of(case, operation)
    return None


def collective_of(case: Case, operation: PendingOperation, others: str | None = None) -> Collective:
    """Describe an operation; with group and number where records show one of each."""
    ranks = {case.member(number).rank for number in operation.members}
    positions = [
        position
        for rank, position in case.graph.calls.positions.items()
        if rank in ranks and position.inside
    ]
    calls = {
        (position.call.group, position.call.seq)
        for position in positions
        if not position.call.p2p and position.call.op == operation.op
    }
    if len(calls) != 1:
        return Collective(op=operation.op, others=others)
    group, seq = calls.pop()
    return Collective(op=operation.op, group=group or None, seq=seq, others=others)
