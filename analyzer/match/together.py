"""Matchers over ranks that all wait: in different calls, in one, or each for the next."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.ledger import recorded_hits
from whyhang.analyzer.match.merging import merged
from whyhang.analyzer.match.states import WAITERS, all_recorded, all_seen, count
from whyhang.analyzer.report import Collective
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import (
    call_of,
    collective_of,
    evidence_of,
    location_of,
    subject_fields,
)

MISMATCHES = (Verdict.MISMATCH, Verdict.SKIPPED, Verdict.EXTRA, Verdict.REORDERED, Verdict.DIVERGED)
STANDSTILLS = (Verdict.ALL_ARRIVED, Verdict.PARTLY_COMPLETED)

ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""


class Mismatch(Record):
    """Every rank waits for others, but in different operations: they cannot meet.

    ``kinds`` are the kinds of operation that take part. The fewest are where to look first; a
    tie names nobody.
    """

    kinds: tuple[WaitKind, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give the mismatches that records show, and the one that stacks do."""
        recorded = recorded_hits(case, *MISMATCHES) if WaitKind.COLLECTIVE in self.kinds else ()
        return merged((self._observed(case), recorded))

    def _observed(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit if nobody is elsewhere and two operations stand against each other."""
        graph = case.graph
        if graph.lagging or graph.progress or not all_seen(case) or all_recorded(case):
            return ()
        meetings = [m for m in graph.operations if m.kind in self.kinds]
        if len(meetings) != len(graph.operations) or len(meetings) < 2:
            return ()
        return (_parted_hit(case, meetings),)


def mismatch(*kinds: WaitKind) -> Mismatch:
    """Ask for ranks that wait in different operations; see ``Mismatch``."""
    return Mismatch(kinds=kinds)


def _parted_hit(case: Case, meetings: list[PendingOperation]) -> Hit:
    counts = [count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    tie = tie or (min(counts) > 1 and any(m.op in ONE_SIDED for m in meetings if m is not fewest))
    others = [meeting for meeting in meetings if meeting is not fewest]
    shown = [case.states[m.members[0]] for m in (fewest, *others)]
    waiting = tuple(sorted(n for meeting in others for n in meeting.members))
    same = len({m.op for m in meetings}) < len(meetings)
    sides = " and ".join(
        f"{case.names(m.members)} in {m.says.call if same else m.op}" + _at_sites(m)
        for m in (fewest, *others)
    )
    # More than two operations, or point-to-point among them, is what pipelines and
    # nested groups look like when the one late rank is not among those seen.
    plain = len(meetings) == 2 and all(m.kind is not WaitKind.P2P for m in meetings)
    return Hit(
        members=() if tie else fewest.members,
        affected=tuple(sorted((*fewest.members, *waiting))) if tie else waiting,
        evidence=tuple(piece for state in shown for piece in evidence_of(case, state)),
        strength=(0.9 if not tie else 0.75) if plain else 0.4,
        names_culprit=not tie,
        collective=collective_of(case, fewest, ", ".join(m.op for m in others)),
        location=location_of(case, shown[0]) if not tie else None,
        fields={
            "sides": sides,
            "differ": "call different collectives",
            **subject_fields(case, [shown[0]], waiting),
        },
    )


class CreatesGroup(Record):
    """Some ranks create a process group while others are in another operation."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Blame those who do not take part, if they are known to be elsewhere."""
        meetings = {m.kind: m for m in case.graph.operations}
        creating = meetings.get(WaitKind.GROUP)
        if creating is None or case.graph.progress or case.graph.lagging:
            return ()
        inside = set(creating.members)
        outside = tuple(
            s.member
            for s in case.states
            if s.member not in inside and s.status in WAITERS and s.place is not None
        )
        if not outside:
            return ()
        few = count(case, outside) < count(case, creating.members)
        blamed = outside if few else creating.members
        shown = [case.states[outside[0]], case.states[creating.members[0]]]
        fields = subject_fields(case, [case.states[n] for n in blamed], creating.members)
        fields["inside"] = case.names(creating.members)
        fields["create"] = "creates" if count(case, creating.members) == 1 else "create"
        fields["outside"] = case.names(outside)
        return (
            Hit(
                members=blamed,
                affected=creating.members if few else outside,
                names_culprit=few,  # of as many outside, some may be no members of that group
                evidence=tuple(piece for state in shown for piece in evidence_of(case, state)),
                collective=collective_of(case, creating),
                location=location_of(case, case.states[blamed[0]]),
                fields=fields,
            ),
        )


def creates_group() -> CreatesGroup:
    """Ask for a group creation that not all ranks take part in."""
    return CreatesGroup()


class AllArrived(Record):
    """Every rank that should be there is in the same operation: the cause is below it.

    ``kinds`` limits it to operations of these kinds.
    """

    kinds: tuple[WaitKind, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give hits that blame nobody."""
        recorded = () if self.kinds else recorded_hits(case, *STANDSTILLS)
        return merged((self._observed(case), recorded))

    def _observed(self, case: Case) -> tuple[Hit, ...]:
        graph = case.graph
        if graph.lagging or graph.progress or len(graph.operations) != 1 or case.job.gone:
            return ()
        if all_recorded(case):
            return ()
        meeting = graph.operations[0]
        if self.kinds and meeting.kind not in self.kinds:
            return ()
        others = [s for s in case.states if s.member not in set(meeting.members)]
        ranked = any(case.member(s.member).rank is not None for s in others)
        if len(meeting.members) < 2 or not all_seen(case) or ranked:
            return ()
        states = [case.states[number] for number in meeting.members]
        return (
            Hit(
                affected=meeting.members,
                evidence=tuple(evidence_of(case, states[0])),
                names_culprit=False,
                strength=_together(case, meeting),
                collective=call_of(case, meeting.members),
                location=location_of(case, states[0]) if len(meeting.sites) < 2 else None,
                fields={
                    **subject_fields(case, states, ()),
                    "call": meeting.op,
                    "says": f"All ranks stand in {meeting.op}{_sites(meeting)} and none comes back",
                },
            ),
        )


def _in_kernel_io(case: Case, number: int) -> bool:
    processes = case.member(number).processes
    return bool(processes) and processes[-1].state == "D"


def _sites(meeting: PendingOperation) -> str:
    if len(meeting.sites) < 2:
        return ""
    return f", at different places ({', '.join(meeting.sites[:4])})"


def _together(case: Case, meeting: PendingOperation) -> float:
    """Say how sure it is that all ranks are in one call.

    Ranks that nobody saw may be elsewhere, one look may have caught them in passing, and the
    same operation at several places may be several groups. Who sleeps in the kernel's file or
    page I/O is on its way through the program, whatever frame it was caught in.
    """
    strength = 0.6 if case.job.absent else 1.0
    if case.graph.snapshots < 2:
        strength *= 0.75
    if any(_in_kernel_io(case, number) for number in meeting.members):
        strength *= 0.5
    return strength * 0.75 if len(meeting.sites) > 1 else strength


def all_arrived(*kinds: WaitKind) -> AllArrived:
    """Ask whether every rank stands in one and the same operation."""
    return AllArrived(kinds=kinds)


class Unpaired(Record):
    """Sends and receives do not pair, by their records or by stacks.

    By stacks: ranks wait to receive and none to send, or the other way round, and all others
    wait so as well or stand in collectives, with the partner among them.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give hits; those from stacks blame nobody: which side left out a call is unseen."""
        recorded = recorded_hits(case, Verdict.P2P_UNPAIRED, Verdict.COALESCED_OPEN)
        return merged(
            (self._observed(case, beside=False), recorded, self._observed(case, beside=True))
        )

    def _observed(self, case: Case, *, beside: bool) -> tuple[Hit, ...]:
        """Look at stacks; ``beside``: others stand in collectives meanwhile."""
        graph = case.graph
        paired = [m for m in graph.operations if m.kind is WaitKind.P2P]
        rest = [m for m in graph.operations if m.kind is not WaitKind.P2P]
        if graph.lagging or graph.progress or not all_seen(case) or case.job.gone:
            return ()
        if case.job.absent or all_recorded(case) or not paired or bool(rest) is not beside:
            return ()
        if any(m.kind is not WaitKind.COLLECTIVE for m in rest) or (
            rest and case.graph.calls.findings
        ):
            return ()
        ways = {way for m in paired for way in ("recv", "send") if way in m.op}
        if len(ways) != 1 or any("recv" not in m.op and "send" not in m.op for m in paired):
            return ()
        members = tuple(sorted(n for meeting in paired for n in meeting.members))
        states = [case.states[number] for number in members]
        if len(members) + len(rest) < 2:
            return ()
        shown = [*states[:4], *(case.states[m.members[0]] for m in rest[:2])]
        fields = subject_fields(case, states, ())
        receive = ways == {"recv"}
        does = ("receive", "sends") if receive else ("send", "receives")
        elsewhere = "; ".join(
            f"{case.names(m.members)} {'is' if len(m.members) == 1 else 'are'} in {m.op}"
            f"{_at_sites(m)}"
            for m in rest
        )
        says = (
            f"{case.names(members)} {fields['waits']} to {does[0]}, and no rank {does[1]}: "
            f"{elsewhere}"
            if rest
            else f"{case.names(members)} all wait to {does[0]} and none {does[1]}"
        )
        return (
            Hit(
                affected=tuple(sorted((*members, *(n for m in rest for n in m.members)))),
                evidence=tuple(piece for s in shown for piece in evidence_of(case, s)[:1]),
                names_culprit=False,
                strength=0.75 if rest else 1.0,
                collective=Collective(op="recv" if receive else "send"),
                location=location_of(case, states[0]),
                fields={**fields, "says": says},
            ),
        )


def unpaired() -> Unpaired:
    """Ask for sends and receives that do not pair; see ``Unpaired``."""
    return Unpaired()


def _at_sites(meeting: PendingOperation) -> str:
    return f" ({meeting.sites[0]})" if meeting.sites and meeting.sites[0] else ""
