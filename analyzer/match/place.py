"""Matchers over where the ranks stand: stacks, process states and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.case import Case, Gone, Meeting, Member, Stand, Standing
from whyhang.analyzer.describe import (
    call_of,
    collective_of,
    evidence_of,
    location_of,
    ranks_in_words,
    subject_fields,
)
from whyhang.analyzer.model import Record
from whyhang.analyzer.motion import Moved
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.signature import Hit
from whyhang.analyzer.waits import Place, Scope, WaitKind

WAITERS = {Standing.WAITING, Standing.MAYBE}
ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""

SHARED = "multiprocessing/synchronize.py"
"""The module whose locks are shared by processes."""

HELD = (Standing.BLOCKED, Standing.RUNNING)
"""Neither waiting for other ranks, nor stopped, moving or dead: held by something local."""


class Late(Record):
    """Ranks that others wait for and that themselves wait for no rank.

    ``kinds`` limits it to ranks whose own place is of these kinds; ``besides`` leaves those
    kinds out. ``states`` limits it to these standings. ``while_in`` limits it to jobs whose
    waiting ranks are in these kinds of operation, ``not_while_in`` is the opposite.
    ``worker_in`` asks for a worker of the rank that waits for such a thing of its own process.
    ``alone`` also takes ranks stuck so while nobody is seen waiting for them. ``through`` is a
    part of how the thread that decides was reached, where it is not the main thread.
    """

    kinds: tuple[WaitKind, ...] = ()
    besides: tuple[WaitKind, ...] = ()
    states: tuple[Standing, ...] = HELD
    while_in: tuple[WaitKind, ...] = ()
    not_while_in: tuple[WaitKind, ...] = ()
    says: str = ""
    moves: tuple[Moved, ...] = ()
    worker_in: tuple[WaitKind, ...] = ()
    alone: bool = False
    through: str = ""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all roots that stand at the same place."""
        if case.picture.progress:
            return ()
        waiters = waiters_for(case)
        if not waiters and not self.alone:
            return ()
        operations = {m.kind for m in case.picture.meetings}
        if self.while_in and not operations & set(self.while_in):
            return ()
        if self.not_while_in and operations & set(self.not_while_in):
            return ()
        starting = self.while_in == (WaitKind.INIT,)
        groups: dict[tuple[object, ...], list[Stand]] = {}
        for number in case.picture.apart:
            stand = case.stands[number]
            if self._wants(stand) and not (starting and has_met(case.member(number))):
                groups.setdefault(_where(stand), []).append(stand)
        return tuple(_late_hit(case, stands, waiters) for stands in groups.values())

    def _wants(self, stand: Stand) -> bool:
        kinds = kinds_of(stand)
        if stand.standing not in self.states:
            return False
        if self.kinds and not kinds & set(self.kinds):
            return False
        if self.moves and stand.motion.moved not in self.moves:
            return False
        if self.says and (stand.place is None or self.says not in stand.place.says):
            return False
        if self.through and self.through not in ((stand.place and stand.place.through) or ""):
            return False
        if self.worker_in and not any(_is_in(place, self.worker_in) for place in stand.children):
            return False
        return not kinds & set(self.besides)


def _is_in(place: Place | None, kinds: tuple[WaitKind, ...]) -> bool:
    """Tell whether a worker waits for such a thing within its process: not for a shared lock."""
    shared = place is not None and place.frame is not None and place.frame.file.endswith(SHARED)
    return place is not None and place.kind in kinds and not shared


def late(
    *kinds: WaitKind,
    besides: tuple[WaitKind, ...] = (),
    states: tuple[Standing, ...] = HELD,
    while_in: tuple[WaitKind, ...] = (),
    not_while_in: tuple[WaitKind, ...] = (),
    says: str = "",
    moves: tuple[Moved, ...] = (),
    worker_in: tuple[WaitKind, ...] = (),
    alone: bool = False,
) -> Late:
    """Ask for ranks that others wait for; see ``Late``."""
    return Late(
        kinds=kinds,
        besides=besides,
        states=states,
        while_in=while_in,
        not_while_in=not_while_in,
        says=says,
        moves=moves,
        worker_in=worker_in,
        alone=alone,
    )


def blocked_in(*kinds: WaitKind, says: str = "", through: str = "") -> Late:
    """Ask for ranks blocked so, whether or not anyone is seen waiting for them."""
    return Late(kinds=kinds, alone=True, says=says, through=through)


def waiters_for(case: Case) -> tuple[int, ...]:
    """List the members that wait for other ranks; a "maybe" counts once there is a root."""
    return tuple(sorted((*case.picture.waiting, *case.picture.maybe)))


def kinds_of(stand: Stand) -> set[WaitKind]:
    """Give what a member waits for and the larger work it is in."""
    if stand.place is None:
        return set()
    found = {stand.place.kind}
    if stand.place.context is not None:
        found.add(stand.place.context)
    return found


def has_met(member: Member) -> bool:
    """Tell whether a process has been in init_process_group: threads of a backend run in it."""
    return any(
        thread.name.startswith(("pt_gloo", "gloo_tcp", "pt_nccl"))
        for process in member.processes[-1:]
        for thread in process.threads
    )


def _where(stand: Stand) -> tuple[object, ...]:
    place = stand.place
    if place is None:
        return (stand.standing,)
    user = place.user
    site = (user.file, user.function, user.line) if user else None
    return (stand.standing is Standing.STOPPED, place.kind, place.context, site)


def _late_hit(case: Case, stands: list[Stand], waiters: tuple[int, ...]) -> Hit:
    members = tuple(stand.member for stand in stands)
    late_ones = set(members)
    affected = tuple(number for number in waiters if number not in late_ones)
    evidence = [piece for stand in stands for piece in evidence_of(case, stand)]
    for meeting in case.picture.meetings:
        evidence += evidence_of(case, case.stands[meeting.members[0]])[:1]
    certain = all(stand.place is None or stand.place.certain for stand in stands)
    strength = 1.0 if certain and affected else 0.8
    if _contradicted(case, members):
        strength *= 0.5
    if _too_many(case, members, waiters):
        strength *= 0.55
    return Hit(
        members=members,
        affected=affected,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=not _too_many(case, members, waiters) and not _all_for_keys(case, members),
        collective=call_of(case, waiters),
        location=location_of(case, stands[0]),
        fields=subject_fields(case, stands, affected),
    )


def _all_for_keys(case: Case, members: tuple[int, ...]) -> bool:
    """Tell whether the whole job waits for keys of the store: who should set them is unknown."""
    everyone = len(members) == len(case.stands) > 1
    return everyone and all(WaitKind.STORE in kinds_of(case.stands[n]) for n in members)


def _contradicted(case: Case, members: tuple[int, ...]) -> bool:
    """Tell whether the ledger knows these ranks, and blames others."""
    blamed = {rank for finding in case.ledger.findings for rank in finding.culprits}
    ranks = set(case.ranks(members))
    return bool(blamed) and ranks <= case.ledger.spots.keys() and not ranks & blamed


def _too_many(case: Case, members: tuple[int, ...], waiters: tuple[int, ...]) -> bool:
    """Tell whether the late ones are the many and merely run, or sleep between two tries.

    Six ranks that went on and two that wait have parted; who is wrong cannot be seen: those that
    poll may wait for what one of the others should do. Only at the start are the many late who
    have not come.
    """
    if case.picture.meetings and all(m.kind is WaitKind.INIT for m in case.picture.meetings):
        return False
    runs = all(_runs_or_polls(case.stands[number]) for number in members)
    return runs and bool(waiters) and _count(case, members) >= _count(case, waiters)


def _runs_or_polls(stand: Stand) -> bool:
    return stand.standing in {Standing.RUNNING, Standing.MOVING} or (
        stand.standing is Standing.BLOCKED and kinds_of(stand) == {WaitKind.SLEEP}
    )


def _count(case: Case, members: Iterable[int]) -> int:
    return sum(case.member(number).copies for number in members)


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


def all_seen(case: Case) -> bool:
    """Tell whether every member's place is known, so that no root can hide."""
    return all(stand.standing is not Standing.UNSEEN for stand in case.stands)


def _parted_hit(case: Case, meetings: list[Meeting]) -> Hit:
    counts = [_count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    tie = tie or (min(counts) > 1 and any(m.op in ONE_SIDED for m in meetings if m is not fewest))
    others = [meeting for meeting in meetings if meeting is not fewest]
    shown = [case.stands[m.members[0]] for m in (fewest, *others)]
    waiting = tuple(sorted(n for meeting in others for n in meeting.members))
    same = len({m.op for m in meetings}) < len(meetings)
    sides = " and ".join(
        f"{case.names(m.members)} in {m.says.removeprefix('in ') if same else m.op}" + _at_sites(m)
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
        few = _count(case, outside) < _count(case, creating.members)
        blamed = outside if few else creating.members
        shown = [case.stands[outside[0]], case.stands[creating.members[0]]]
        fields = subject_fields(case, [case.stands[n] for n in blamed], creating.members)
        fields["inside"] = case.names(creating.members)
        fields["create"] = "creates" if _count(case, creating.members) == 1 else "create"
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


class Absent(Record):
    """A rank should run on a host that was looked at, and no living process is it.

    ``starting``: only while the others are still in init_process_group (or only after).
    """

    starting: bool | None = None

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks that are gone."""
        starting = any(m.kind is WaitKind.INIT for m in case.picture.meetings)
        # a size that is too large says nothing of a job whose ranks have met nevertheless
        gone = tuple(lost for lost in case.job.gone if starting or not lost.beyond)
        if not gone or (self.starting is not None and self.starting is not starting):
            return ()
        stores = (s.member for s in case.stands if WaitKind.STORE in kinds_of(s))
        waiters = tuple(sorted({*waiters_for(case), *stores}))
        if not waiters and case.stands and all(_on_its_own(stand) for stand in case.stands):
            return ()  # who is gone has ended, and nobody waits for it
        ranks = [lost.rank for lost in gone]
        members = tuple(m.id for m in case.job.members if m.rank in ranks)
        evidence = [
            Evidence(source=lost.source.file, quote=lost.quote, rank=None) for lost in gone[:4]
        ]
        for number in waiters[:2]:
            evidence += evidence_of(case, case.stands[number])[:1]
        fields = subject_fields(case, [], waiters)
        fields["who"] = ranks_in_words(ranks)
        fields["is"], fields["has"] = ("are", "have") if len(ranks) > 1 else ("is", "has")
        fields["does"] = f"no process of {'them' if len(ranks) > 1 else 'it'} runs" + _where_from(
            gone
        )
        return (
            Hit(
                members=members,
                ranks=tuple(ranks),
                affected=waiters,
                evidence=tuple(evidence),
                collective=call_of(case, waiters),
                fields=fields,
            ),
        )


def _on_its_own(stand: Stand) -> bool:
    """Tell whether it is known of a member that it waits for no other rank."""
    place = stand.place
    return (
        stand.standing in OWN
        and place is not None
        and place.scope not in {Scope.RANKS, Scope.MAYBE}
    )


def _where_from(gone: Iterable[Gone]) -> str:
    """Name the hosts that should run the missing ranks, and what says so."""
    gone = tuple(gone)
    hosts = sorted({lost.host for lost in gone if lost.host})
    quotes = dict.fromkeys(lost.quote for lost in gone)
    return (f" on {', '.join(hosts)}" if hosts else "") + f" ({'; '.join(list(quotes)[:2])})"


def absent(*, starting: bool | None = None) -> Absent:
    """Ask for ranks that should be there and are not; see ``Absent``."""
    return Absent(starting=starting)


class Moving(Record):
    """The job as a whole goes on, and at every look the same few ranks hold the others up."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit if the waiting ranks had answers, or the late ones were seen to move."""
        picture = case.picture
        waiters = [s for s in case.stands if _mostly(s, WAITERS)]
        behind = [s for s in case.stands if _mostly(s, OWN)]
        moves = [s for s in behind if s.standing is Standing.MOVING]
        if not behind or not waiters or not (picture.progress or moves):
            return ()
        numbers = tuple(s.member for s in waiters)
        clear = _count(case, [s.member for s in behind]) < _count(case, numbers)
        if not clear and (picture.progress or not moves):
            return ()
        return (
            Hit(
                members=tuple(s.member for s in behind) if clear else (),
                affected=numbers if clear else (),
                names_culprit=clear,
                evidence=tuple(piece for s in behind for piece in evidence_of(case, s)),
                strength=1.0 if picture.progress else 0.8,
                location=location_of(case, behind[0]) if clear else None,
                fields=subject_fields(case, behind, numbers),
            ),
        )


OWN = {Standing.BLOCKED, Standing.RUNNING, Standing.MOVING}


def _mostly(stand: Stand, standings: set[Standing]) -> bool:
    """Tell whether a member stood so at most looks: at all of two, at three of five."""
    looks = (*stand.earlier, stand.standing)
    return sum(was in standings for was in looks) > MOST * len(looks)


MOST = 0.55


def moving() -> Moving:
    """Ask whether the job goes on although some rank is behind."""
    return Moving()


class AtEase(Record):
    """Ranks were seen to go on, and nobody holds the others up."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        if not case.picture.progress or not case.stands or case.job.gone:
            return ()
        moved = [s for s in case.stands if s.motion.moved in {Moved.ON, Moved.STIRRED}]
        return (
            Hit(
                names_culprit=False,
                evidence=tuple(piece for s in moved[:3] for piece in evidence_of(case, s)[:1]),
                fields=subject_fields(case, moved, ()),
            ),
        )


def at_ease() -> AtEase:
    """Ask whether the job simply runs."""
    return AtEase()
