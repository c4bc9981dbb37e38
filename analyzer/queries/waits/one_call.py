"""All ranks wait for others in one operation, or all that were seen do."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.waits.states import all_recorded, all_seen
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import call_of, evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def all_in_one_call(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody; ``kinds`` limits it to operations of these kinds."""
    graph = case.graph
    if graph.lagging or graph.progress or len(graph.operations) != 1 or case.job.missing:
        return
    if all_recorded(case):
        return
    meeting = graph.operations[0]
    if kinds and (meeting.kind not in kinds or case.job.absent):
        return
    others = [s for s in case.states if s.member not in set(meeting.members)]
    ranked = any(case.member(s.member).rank is not None for s in others)
    if len(meeting.members) < 2 or not all_seen(case) or ranked:
        return
    states = [case.states[number] for number in meeting.members]
    yield Hit(
        affected=meeting.members,
        evidence=tuple(evidence_of(case, states[0])),
        names_culprit=False,
        strength=_trust(case, meeting),
        collective=call_of(case, meeting.members),
        location=location_of(case, states[0]) if len(meeting.sites) < 2 else None,
        fields={
            **subject_fields(case, states, ()),
            "call": meeting.op,
            **_in_one_call_words(case, meeting),
        },
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
    states = [case.states[number] for number in graph.waiting]
    yield Hit(
        affected=graph.waiting,
        evidence=tuple(evidence_of(case, states[0])),
        names_culprit=False,
        collective=call_of(case, graph.waiting),
        location=location_of(case, states[0]),
        fields={
            **subject_fields(case, states, ()),
            "call": " and ".join(operation.op for operation in graph.operations[:2]),
        },
    )


def _in_one_call_words(case: Case, meeting: PendingOperation) -> dict[str, str]:
    """Say who stands in the call: all ranks, or all that were looked at."""
    where = f"{meeting.op}{_sites(meeting)} and none comes back"
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


def _sites(meeting: PendingOperation) -> str:
    if len(meeting.sites) < 2:
        return ""
    return f", at different places ({', '.join(meeting.sites[:4])})"
