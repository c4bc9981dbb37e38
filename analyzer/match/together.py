"""Matchers over ranks that all wait: in different calls, in one, or each for the next."""

from __future__ import annotations

from whyhang.analyzer.case import Case, Meeting
from whyhang.analyzer.describe import (
    call_of,
    collective_of,
    evidence_of,
    location_of,
    subject_fields,
)
from whyhang.analyzer.match.stands import WAITERS, all_seen, count
from whyhang.analyzer.model import Record
from whyhang.analyzer.report import Collective
from whyhang.analyzer.signature import Hit
from whyhang.analyzer.waits import WaitKind

ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""


class Parted(Record):
    """Every rank waits for others, but in different operations: they cannot meet.

    ``kinds`` are the kinds of operation that take part. The fewest are where to look first; a
    tie names nobody.
    """

    kinds: tuple[WaitKind, ...] = (WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.MPI)

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit if nobody is elsewhere and two operations stand against each other."""
        picture = case.picture
        if picture.roots or picture.progress or not all_seen(case):
            return ()
        meetings = [m for m in picture.meetings if m.kind in self.kinds]
        if len(meetings) != len(picture.meetings) or len(meetings) < 2:
            return ()
        return (_parted_hit(case, meetings),)


def parted(*kinds: WaitKind) -> Parted:
    """Ask for ranks that wait in different operations; see ``Parted``."""
    return Parted(kinds=kinds) if kinds else Parted()


def _parted_hit(case: Case, meetings: list[Meeting]) -> Hit:
    counts = [count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    tie = tie or (min(counts) > 1 and any(m.op in ONE_SIDED for m in meetings if m is not fewest))
    others = [meeting for meeting in meetings if meeting is not fewest]
    shown = [case.stands[m.members[0]] for m in (fewest, *others)]
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
        evidence=tuple(piece for stand in shown for piece in evidence_of(case, stand)),
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
        meetings = {m.kind: m for m in case.picture.meetings}
        creating = meetings.get(WaitKind.GROUP)
        if creating is None or case.picture.progress or case.picture.roots:
            return ()
        inside = set(creating.members)
        outside = tuple(
            s.member
            for s in case.stands
            if s.member not in inside and s.standing in WAITERS and s.place is not None
        )
        if not outside:
            return ()
        few = count(case, outside) < count(case, creating.members)
        blamed = outside if few else creating.members
        shown = [case.stands[outside[0]], case.stands[creating.members[0]]]
        fields = subject_fields(case, [case.stands[n] for n in blamed], creating.members)
        fields["inside"] = case.names(creating.members)
        fields["create"] = "creates" if count(case, creating.members) == 1 else "create"
        fields["outside"] = case.names(outside)
        return (
            Hit(
                members=blamed,
                affected=creating.members if few else outside,
                names_culprit=few,  # of as many outside, some may be no members of that group
                evidence=tuple(piece for stand in shown for piece in evidence_of(case, stand)),
                collective=collective_of(case, creating),
                location=location_of(case, case.stands[blamed[0]]),
                fields=fields,
            ),
        )


def creates_group() -> CreatesGroup:
    """Ask for a group creation that not all ranks take part in."""
    return CreatesGroup()


class AllTogether(Record):
    """Every rank that should be there is in the same operation: the cause is below it.

    ``kinds`` limits it to operations of these kinds.
    """

    kinds: tuple[WaitKind, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        picture = case.picture
        if picture.roots or picture.progress or len(picture.meetings) != 1 or case.job.gone:
            return ()
        meeting = picture.meetings[0]
        if self.kinds and meeting.kind not in self.kinds:
            return ()
        others = [s for s in case.stands if s.member not in set(meeting.members)]
        ranked = any(case.member(s.member).rank is not None for s in others)
        if len(meeting.members) < 2 or not all_seen(case) or ranked:
            return ()
        stands = [case.stands[number] for number in meeting.members]
        return (
            Hit(
                affected=meeting.members,
                evidence=tuple(evidence_of(case, stands[0])),
                names_culprit=False,
                strength=_together(case, meeting),
                collective=call_of(case, meeting.members),
                location=location_of(case, stands[0]) if len(meeting.sites) < 2 else None,
                fields={
                    **subject_fields(case, stands, ()),
                    "call": meeting.op,
                    "says": f"All ranks stand in {meeting.op}{_sites(meeting)} and none comes back",
                },
            ),
        )


def _in_kernel_io(case: Case, number: int) -> bool:
    processes = case.member(number).processes
    return bool(processes) and processes[-1].state == "D"


def _sites(meeting: Meeting) -> str:
    if len(meeting.sites) < 2:
        return ""
    return f", at different places ({', '.join(meeting.sites[:4])})"


def _together(case: Case, meeting: Meeting) -> float:
    """Say how sure it is that all ranks are in one call.

    Ranks that nobody saw may be elsewhere, one look may have caught them in passing, and the
    same operation at several places may be several groups. Who sleeps in the kernel's file or
    page I/O is on its way through the program, whatever frame it was caught in.
    """
    strength = 0.6 if case.job.absent else 1.0
    if case.picture.looks < 2:
        strength *= 0.75
    if any(_in_kernel_io(case, number) for number in meeting.members):
        strength *= 0.5
    return strength * 0.75 if len(meeting.sites) > 1 else strength


def all_together(*kinds: WaitKind) -> AllTogether:
    """Ask whether every rank stands in one and the same operation."""
    return AllTogether(kinds=kinds)


class OneWay(Record):
    """Ranks wait to receive and none to send, or the other way round; all others are elsewhere.

    ``beside``: the others may stand in collectives, with the partner among them. Otherwise every
    rank waits so.
    """

    beside: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody: one side left out a call, and which cannot be seen."""
        picture = case.picture
        paired = [m for m in picture.meetings if m.kind is WaitKind.P2P]
        rest = [m for m in picture.meetings if m.kind is not WaitKind.P2P]
        if picture.roots or picture.progress or not all_seen(case) or case.job.gone:
            return ()
        if case.job.absent or not paired or bool(rest) is not self.beside:
            return ()
        if any(m.kind is not WaitKind.COLLECTIVE for m in rest) or (rest and case.ledger.findings):
            return ()
        ways = {way for m in paired for way in ("recv", "send") if way in m.op}
        if len(ways) != 1 or any("recv" not in m.op and "send" not in m.op for m in paired):
            return ()
        members = tuple(sorted(n for meeting in paired for n in meeting.members))
        stands = [case.stands[number] for number in members]
        if len(members) + len(rest) < 2:
            return ()
        shown = [*stands[:4], *(case.stands[m.members[0]] for m in rest[:2])]
        fields = subject_fields(case, stands, ())
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
                location=location_of(case, stands[0]),
                fields={**fields, "says": says},
            ),
        )


def one_way(*, beside: bool = False) -> OneWay:
    """Ask whether sends and receives stand open on one side only; see ``OneWay``."""
    return OneWay(beside=beside)


def _at_sites(meeting: Meeting) -> str:
    return f" ({meeting.sites[0]})" if meeting.sites and meeting.sites[0] else ""
