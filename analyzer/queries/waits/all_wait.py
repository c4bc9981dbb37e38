"""Ranks of which all wait, in one call or for others that were not seen."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import in_vain
from whyhang.analyzer.queries.waits.states import (
    all_recorded,
    all_wait,
)
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import call_of, evidence_of


def all_in_one_call(case: Case, *kinds: WaitKind, says: tuple[str, ...] = ()) -> Iterator[Hit]:
    """Yield one hit that blames nobody; ``kinds`` and words in what it ``says`` limit the call."""
    if not all_wait(case) or len(case.graph.operations) != 1 or all_recorded(case):
        return
    meeting = case.graph.operations[0]
    if kinds and (meeting.kind not in kinds or case.job.absent):
        return
    if says and not any(word in str(meeting.says) for word in says):
        return
    others = [s for s in case.states if s.member not in set(meeting.members)]
    ranked = any(case.member(s.member).rank is not None for s in others)
    if len(meeting.members) < 2 or ranked:
        return
    yield in_vain(
        case,
        meeting.members,
        meeting.members,
        collective=call_of(case, meeting.members),
        evidence=evidence_of(case, case.states[meeting.members[0]]),
        strength=_trust(case, meeting),
        located=len(meeting.sites) < 2,
        call=meeting.op,
        **_in_one_call_words(case, meeting),
    )


def only_waiters(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit if whoever was seen waits in operations of these kinds, and not all were.

    Where a rank stood as it lost a peer is no wait.
    """
    graph = case.graph
    dumps = [dump for number in graph.waiting for dump in case.member(number).dumps]
    if not dumps or any(dump.tool == EXCEPTION_STACK for dump in dumps):
        return
    seen = {s.member for s in case.states if s.status is not Status.UNSEEN}
    if graph.progress or not graph.waiting or seen != set(graph.waiting):
        return
    if any(operation.kind not in kinds for operation in graph.operations):
        return
    yield in_vain(
        case,
        graph.waiting,
        graph.waiting,
        collective=call_of(case, graph.waiting),
        evidence=evidence_of(case, case.states[graph.waiting[0]]),
        call=" and ".join(operation.op for operation in graph.operations[:2]),
    )


def _in_one_call_words(case: Case, meeting: PendingOperation) -> dict[str, str]:
    """Say who stands in the call: all ranks, or all that were looked at."""
    sites = ", ".join(meeting.sites[:4])
    where = meeting.op + (f", at different places ({sites})" if len(meeting.sites) > 1 else "")
    where += " and none comes back"
    if not case.job.absent:
        seen = f"Everyone that was seen is inside {meeting.op}; no rank is missing."
        return {"says": f"All ranks stand in {where}", "seen": seen}
    who, others = case.names(meeting.members), ranks_in_words(case.job.absent)
    verb = "was" if len(case.job.absent) == 1 else "were"
    return {
        "says": f"Of the {case.job.world_size} ranks {who.removeprefix('ranks ')} stand in "
        f"{where}; {others} {verb} not looked at",
        "seen": f"{who[:1].upper()}{who[1:]} are inside {meeting.op}. Nothing is known of "
        f"{others}: who has not come may be among them, on a host that was not looked at. If all "
        "have come:",
    }


def _trust(case: Case, meeting: PendingOperation) -> float:
    """Return how sure it is that all ranks are in one call.

    Ranks that nobody saw may be elsewhere, one look may have caught them in passing, and the
    same operation at several places may be several groups. Who sleeps in the kernel's file or
    page I/O is on its way through the program, whatever frame it was caught in.
    """
    strength = GUESSED if case.job.absent else CLEAR
    if case.graph.snapshots < 2:
        strength *= INCOMPLETE
    processes = (process for n in meeting.members for process in case.member(n).processes[-1:])
    if any(process.state == "D" for process in processes):
        strength *= CONTRADICTED
    return strength * INCOMPLETE if len(meeting.sites) > 1 else strength
