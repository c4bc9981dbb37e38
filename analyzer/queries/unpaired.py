"""Sends and receives that stacks show and that do not pair."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.queries.states import all_recorded, all_seen
from whyhang.analyzer.report import Collective
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def unpaired_by_stacks(case: Case, *, beside: bool) -> Iterator[Hit]:
    """Yield one hit if ranks wait to receive and none to send, or the other way round.

    All others wait so as well or, with ``beside``, stand in collectives, the partner among them.
    Nobody is blamed: which side left out a call is unseen.
    """
    graph = case.graph
    paired = [m for m in graph.operations if m.kind is WaitKind.P2P]
    rest = [m for m in graph.operations if m.kind is not WaitKind.P2P]
    if graph.lagging or graph.progress or not all_seen(case) or case.job.missing:
        return
    if case.job.absent or all_recorded(case) or not paired or bool(rest) is not beside:
        return
    if any(m.kind is not WaitKind.COLLECTIVE for m in rest) or (rest and case.graph.calls.findings):
        return
    ways = {_way(m) for m in paired}
    unknown = ways == {None} and rest and paired[0].op != "rpc"
    if len(ways) != 1 or (None in ways and not unknown):
        return
    members = tuple(sorted(n for meeting in paired for n in meeting.members))
    states = [case.states[number] for number in members]
    if len(members) + len(rest) < 2:
        return
    shown = [*states[:4], *(case.states[m.members[0]] for m in rest[:2])]
    fields = subject_fields(case, states, ())
    receive = ways == {"recv"}
    does = ("receive", "sends") if receive else ("send", "receives")
    waits = f"to {does[0]}, and no rank {does[1]}"
    if unknown:
        waits = f"in {paired[0].says.call}, and no other rank is in such a call"
    elsewhere = "; ".join(
        f"{case.names(m.members)} {'is' if len(m.members) == 1 else 'are'} in {m.op}{m.at}"
        for m in rest
    )
    says = (
        f"{case.names(members)} {fields['waits']} {waits}: {elsewhere}"
        if rest
        else f"{case.names(members)} all wait to {does[0]} and none {does[1]}"
    )
    yield Hit(
        affected=tuple(sorted((*members, *(n for m in rest for n in m.members)))),
        evidence=tuple(piece for s in shown for piece in evidence_of(case, s)[:1]),
        names_culprit=False,
        strength=INCOMPLETE if rest else CLEAR,
        collective=Collective(op=paired[0].op if unknown else "recv" if receive else "send"),
        location=location_of(case, states[0]),
        fields={**fields, "says": says},
    )


def _way(operation: PendingOperation) -> str | None:
    """Return whether ranks receive or send in an operation; None where they do both, or either."""
    ways = [way for way in ("recv", "send") if way in operation.op]
    return ways[0] if len(ways) == 1 else None
