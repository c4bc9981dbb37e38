"""Matchers over the place where ranks meet at start-up: whether each reaches it, and what is there.

What a rank is told is read from the call that it is in (claims), else from its environment. What
is at that place was asked from the rank's own network (``StoreView``).
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case, Member, Stand, Standing
from whyhang.analyzer.describe import evidence_of, location_of, ranks_in_words, subject_fields
from whyhang.analyzer.model import Claim, Record
from whyhang.analyzer.model_meeting import Listener, StoreView
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.signature import Hit
from whyhang.analyzer.store_keys import clients, joined
from whyhang.analyzer.waits import WaitKind

LATER = 2.0
"""Seconds between the start of an old process and of the first new one."""

OPEN = {"answered", "not asked"}
"""Outcomes of places that a rank can reach."""

_SAYS = {
    "not asked": "the port takes connections",
    "refused": "the connection is refused",
    "unreachable": "no answer comes from there",
    "unresolved": "the name has no address",
    "stranger": "something that is no store answers",
    "closed": "the connection is closed at once",
    "silent": "the connection is taken and nothing is said",
}


class _At(Record):
    """One rank that starts, and the place that it was told."""

    member: int
    address: str
    view: StoreView | None


class CutOff(Record):
    """Ranks that start do not reach the store at the place they were told.

    ``outcomes`` are those of ``StoreView`` that count. Where others do reach theirs, those that
    do not are blamed; else nobody is. A store that is not there yet because its rank is late is
    no such case.
    """

    outcomes: tuple[str, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks that are cut off in this way."""
        here = _starting(case)
        away = [at for at in here if at.view is not None and at.view.outcome in self.outcomes]
        there = [at for at in here if at.view is not None and at.view.outcome in OPEN]
        if not away or case.picture.progress or (not there and _owner_is_late(case)):
            return ()
        views = _distinct(at.view for at in away)
        elsewhere = {at.view.host for at in there if at.view is not None}
        few = len(away) < len(here) - len(away) or len(views) == 1
        names = bool(there) and few
        strength = 1.0 if there or _owner(case) is not None else 0.7
        fields = subject_fields(case, _stands(case, away), tuple(at.member for at in there))
        fields |= _fields(views[0])
        fields["elsewhere"] = (
            f"; {case.names(at.member for at in there)} reach{'es' if len(there) == 1 else ''} "
            f"a store at {', '.join(sorted(elsewhere))}"
            if there
            else ""
        )
        return (
            Hit(
                members=tuple(at.member for at in away),
                affected=tuple(at.member for at in there),
                evidence=(
                    *(_view_evidence(view) for view in views[:3]),
                    *_knocking(case, away),
                    *(_view_evidence(view) for view in _distinct(at.view for at in there)[:1]),
                    *evidence_of(case, case.stands[away[0].member])[:1],
                ),
                strength=strength,
                names_culprit=names,
                location=location_of(case, case.stands[away[0].member]),
                fields=fields,
            ),
        )


def cut_off(*outcomes: str) -> CutOff:
    """Ask for ranks that do not reach the store; see ``CutOff``."""
    return CutOff(outcomes=outcomes)


class ResolvesApart(Record):
    """One name of the master has different addresses for different ranks, and some fail.

    ``loopback``: the address is the loopback of each rank's own host instead, so that every host
    finds itself there.
    """

    loopback: bool = False

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Blame those that find something else under the name than the ranks that get through."""
        here = [at for at in _starting(case) if at.view is not None and at.view.resolved]
        good = [at for at in here if at.view is not None and at.view.outcome in OPEN]
        bad = [at for at in here if at not in good]
        if case.picture.progress or not bad or not (good or self.loopback):
            return ()
        if self.loopback:
            bad = [at for at in bad if _is_inward(at) and _on_other_host(case, at, good)]
            if not bad:
                return ()
        else:
            usual = {(at.view.host, at.view.resolved) for at in good if at.view is not None}
            names = {name for name, _ in usual if not _is_address(name)}
            bad = [
                at
                for at in bad
                if at.view is not None
                and at.view.host in names
                and (at.view.host, at.view.resolved) not in usual
            ]
            if not bad:
                return ()
        first = bad[0].view
        other = good[0].view if good else None
        fields = subject_fields(case, _stands(case, bad), tuple(at.member for at in good))
        fields |= _fields(first)
        fields["usual"] = ", ".join(other.resolved) if other is not None else "?"
        views = _distinct(at.view for at in (*bad[:3], *good[:1]))
        return (
            Hit(
                members=tuple(at.member for at in bad),
                affected=tuple(at.member for at in good),
                evidence=(
                    *(_view_evidence(view) for view in views),
                    *evidence_of(case, case.stands[bad[0].member])[:1],
                ),
                names_culprit=not self.loopback or len(bad) < len(good),
                location=location_of(case, case.stands[bad[0].member]),
                fields=fields,
            ),
        )


def resolves_apart(*, loopback: bool = False) -> ResolvesApart:
    """Ask for a name that leads to different hosts; see ``ResolvesApart``."""
    return ResolvesApart(loopback=loopback)


class MeetsElsewhere(Record):
    """Few ranks were told another place than the rest, and do not reach the others' store.

    The place of rank 0 is the right one, because its store is there; without rank 0 the most
    frequent is.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that were told another place."""
        here = _starting(case)
        usual = _usual(case, here)
        if usual is None or case.picture.progress:
            return ()
        odd = [at for at in here if at.address != usual and not _same_place(at, here, usual)]
        rest = [at for at in here if at.address == usual]
        if not odd:
            return ()
        fields = subject_fields(case, _stands(case, odd), tuple(at.member for at in rest))
        fields["theirs"], fields["usual"] = odd[0].address, usual
        view = odd[0].view
        fields["there"] = (
            f", where {_SAYS[view.outcome]}" if view is not None and view.outcome in _SAYS else ""
        )
        proven = _owner(case) is not None or len(odd) < len(rest)
        return (
            Hit(
                members=tuple(at.member for at in odd),
                affected=tuple(at.member for at in rest),
                evidence=(
                    *(_told(case, at) for at in (*odd[:3], *rest[:2])),
                    *([_view_evidence(view)] if view is not None else []),
                    *evidence_of(case, case.stands[odd[0].member])[:1],
                ),
                names_culprit=proven,
                strength=1.0 if proven else 0.8,
                location=location_of(case, case.stands[odd[0].member]),
                fields=fields,
            ),
        )


def meets_elsewhere() -> MeetsElsewhere:
    """Ask for ranks that were told another place; see ``MeetsElsewhere``."""
    return MeetsElsewhere()


class PortHeld(Record):
    """A process that is no rank of this start listens where the ranks are to meet."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the holder; no rank is to blame."""
        here = _starting(case)
        if case.picture.progress or not here:
            return ()
        for view in _distinct(at.view for at in here):
            strangers = [one for one in view.listeners if not one.ours and not one.same_script]
            if not strangers or view.own_address is False:
                continue
            waiting = tuple(at.member for at in here if at.view == view)
            return (_held(case, view, strangers[0], None, waiting),)
        return ()


class Leftover(Record):
    """A rank of an earlier run of the same script still holds the store that new ranks talk to.

    It began before all of them, and either it is past the start-up that they are in, or the store
    has counted more clients than the job has ranks.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; the old process is to blame, where it is taken for a rank of the job."""
        if case.picture.progress:
            return ()
        inside = {at.member for at in _starting(case)}
        for view in case.job.stores:
            for one in view.listeners:
                if not one.same_script or one.started_at is None or view.own_address is False:
                    continue
                own = next((m for m in case.job.members if m.pid == one.pid), None)
                young = tuple(
                    m.id for m in case.job.members if m is not own and _began(m) is not None
                )
                if not young or any(
                    (_began(case.member(n)) or 0) < one.started_at + LATER for n in young
                ):
                    continue
                past = set(young) <= inside and (own is None or own.id not in inside)
                if past or _overfull(case, view, young):
                    return (_held(case, view, one, own, young),)
        return ()


def _began(member: Member) -> float | None:
    return member.processes[-1].started_at if member.processes else None


def _overfull(case: Case, view: StoreView, young: Sequence[int]) -> bool:
    """Tell whether more clients have come than there are ranks; torchrun's agents count too."""
    counted = clients(view)
    elastic = any(
        "TORCHELASTIC_RUN_ID" in case.member(number).processes[-1].environ for number in young
    )
    return counted is not None and counted > (case.job.world_size or counted) and not elastic


def _held(
    case: Case, view: StoreView, holder: Listener, own: Member | None, waiting: tuple[int, ...]
) -> Hit:
    fields = subject_fields(case, [case.stands[n] for n in waiting], ())
    fields |= {**_fields(view), **_holder_fields(case, view, holder, waiting)}
    return Hit(
        members=() if own is None else (own.id,),
        affected=waiting,
        evidence=(
            _holder_evidence(view, holder),
            _view_evidence(view),
            *(evidence_of(case, case.stands[own.id])[:1] if own is not None else ()),
            *evidence_of(case, case.stands[waiting[0]])[:1],
        ),
        names_culprit=own is not None,
        fields=fields,
    )


def port_held() -> PortHeld:
    """Ask for a stranger that holds the port of the store; see ``PortHeld``."""
    return PortHeld()


def leftover() -> Leftover:
    """Ask for a process of an earlier run that holds the store; see ``Leftover``."""
    return Leftover()


class LargeLost(Record):
    """Small packets to the master's host come back, and those of full size vanish (a probe)."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks of which that is so; it is the way, not the rank."""
        lost = [v for v in case.job.stores if v.echo_small is True and v.echo_large is False]
        pids = {pid for view in lost for pid in view.asked_by}
        members = [m.id for m in case.job.members if m.pid in pids]
        if not members or case.picture.progress:
            return ()
        fields = subject_fields(case, [case.stands[number] for number in members], ())
        fields |= {**_fields(lost[0]), "mtu": str(lost[0].mtu)}
        return (
            Hit(
                affected=tuple(members),
                evidence=tuple(
                    Evidence(
                        source=view.source.file,
                        line=view.source.line,
                        rank=None,
                        quote=f"ping {view.host}, as pid {view.asked_by[0]}: 84 bytes answered, "
                        f"{view.mtu} bytes not",
                    )
                    for view in lost[:3]
                ),
                names_culprit=False,
                fields=fields,
            ),
        )


def large_lost() -> LargeLost:
    """Ask whether packets of full size vanish; see ``LargeLost``."""
    return LargeLost()


def _starting(case: Case) -> list[_At]:
    """List the ranks inside init_process_group, with the place that each was told."""
    inside = {n for m in case.picture.meetings if m.kind is WaitKind.INIT for n in m.members}
    told = _addresses(case.job.claims)
    views = {pid: view for view in case.job.stores for pid in view.asked_by}
    found = []
    for number in sorted(inside):
        member = case.member(number)
        environ = member.processes[-1].environ if member.processes else {}
        address = told.get(member.pid)
        if address is None and "MASTER_ADDR" in environ and "MASTER_PORT" in environ:
            address = f"{environ['MASTER_ADDR']}:{environ['MASTER_PORT']}"
        view = views.get(member.pid) if member.pid is not None else None
        if address is not None:
            found.append(_At(member=number, address=address, view=view))
    return found


def _addresses(claims: Iterable[Claim]) -> dict[int | None, str]:
    return {claim.who.pid: claim.value for claim in claims if claim.about == "meets_at"}


def _owner(case: Case) -> Stand | None:
    """Give where rank 0 stands, if it is inside its own start-up: its store is up, or failed."""
    number = case.job.by_rank.get(0)
    if number is None:
        return None
    inside = any(m.kind is WaitKind.INIT and number in m.members for m in case.picture.meetings)
    return case.stands[number] if inside else None


def _owner_is_late(case: Case) -> bool:
    """Tell whether rank 0 lives and has not come to its start-up: then no store can be there."""
    number = case.job.by_rank.get(0)
    if number is None or _owner(case) is not None:
        return False
    return case.stands[number].standing is not Standing.GONE


def _usual(case: Case, here: Sequence[_At]) -> str | None:
    first = next((at.address for at in here if case.member(at.member).rank == 0), None)
    if first is not None or not here:
        return first
    return Counter(at.address for at in here).most_common(1)[0][0]


def _same_place(one: _At, here: Sequence[_At], usual: str) -> bool:
    """Tell whether another name leads to the same store, as localhost on the master's host does."""
    other = next((at.view for at in here if at.address == usual and at.view is not None), None)
    if one.view is None or other is None:
        return one.address.rpartition(":")[2] == usual.rpartition(":")[2]
    return one.view.port == other.port and {one.view.outcome, other.outcome} <= OPEN


def _is_inward(at: _At) -> bool:
    """Tell whether the place is the loopback of whoever asks."""
    return at.view is not None and all(_loops(address) for address in at.view.resolved)


def _loops(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _on_other_host(case: Case, at: _At, good: Sequence[_At]) -> bool:
    """Tell whether a rank is on another host than rank 0: by their networks, or its own number."""
    if good:
        networks = {other.view.network for other in good if other.view is not None}
        return at.view is not None and at.view.network not in networks
    member = case.member(at.member)
    if member.rank is None or member.local_rank is None or not member.processes:
        return False
    by_launcher = "LOCAL_WORLD_SIZE" in member.processes[-1].environ
    return by_launcher and member.rank > member.local_rank


def _holder_fields(
    case: Case, view: StoreView, holder: Listener, waiting: Sequence[int]
) -> dict[str, str]:
    begun = [
        process.started_at
        for number in waiting
        for process in case.member(number).processes[-1:]
        if process.started_at is not None
    ]
    age = ""
    if holder.started_at is not None and begun:
        seconds = min(begun) - holder.started_at
        age = f", started {_time(seconds)} before them" if seconds > 0 else ", started after them"
    rank = f" (its rank {holder.rank})" if holder.rank is not None else ""
    owner = f"process {holder.pid}" if holder.pid is not None else "a process of another user"
    return {
        "holder": owner,
        "holder_pid": str(holder.pid) if holder.pid is not None else "PID",
        "command": f" ({holder.command})" if holder.command else "",
        "age": age,
        "of_rank": rank,
        "port": str(view.port),
    }


def _time(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}s"
    return f"{seconds:.0f} s"


def _fields(view: StoreView | None) -> dict[str, str]:
    if view is None:
        return {}
    resolved = ", ".join(view.resolved)
    own = ""
    if view.own_address and view.outcome == "refused":
        own = "; that address belongs to its own host, and nobody listens there"
    return {
        "address": f"{view.host}:{view.port}",
        "host": view.host,
        "port": str(view.port),
        "resolved": resolved or "?",
        "as": f" ({resolved})" if resolved and resolved != view.host else "",
        "why": f" ({view.why})" if view.why else "",
        "own": own,
        "says": _SAYS.get(view.outcome, view.outcome),
    }


def _stands(case: Case, here: Sequence[_At]) -> list[Stand]:
    return [case.stands[at.member] for at in here]


def _distinct(views: Iterable[StoreView | None]) -> list[StoreView]:
    found: list[StoreView] = []
    for view in views:
        if view is not None and view not in found:
            found.append(view)
    return found


def _view_evidence(view: StoreView) -> Evidence:
    """Quote what was found at a place, in one line."""
    named = (
        f" = {', '.join(view.resolved)}" if view.resolved and view.resolved != (view.host,) else ""
    )
    said = _SAYS.get(view.outcome, view.outcome)
    if view.outcome == "answered":
        counted = clients(view)
        groups = joined(view)
        said = "a store answers" + (f"; {counted} clients counted" if counted is not None else "")
        if groups and groups[0].default:
            said += f"; addresses of {ranks_in_words(groups[0].ranks)} in it"
    why = f" ({view.why})" if view.why else ""
    asked = ", ".join(str(pid) for pid in view.asked_by[:4])
    return Evidence(
        source=view.source.file,
        line=view.source.line,
        rank=None,
        quote=f"{view.host}:{view.port}{named}, asked as pid {asked}: {said}{why}",
    )


def _holder_evidence(view: StoreView, holder: Listener) -> Evidence:
    owner = f"pid {holder.pid}" if holder.pid is not None else "a process of another user"
    return Evidence(
        source=view.source.file,
        line=view.source.line,
        rank=None,
        quote=f"{holder.address} listen: {owner} {holder.command}".rstrip(),
    )


def _knocking(case: Case, away: Sequence[_At]) -> list[Evidence]:
    """Quote the sockets of ranks that knock in vain."""
    found = []
    for at in away[:3]:
        member = case.member(at.member)
        for process in member.processes:
            lines = [text for text in process.descriptors if text.endswith(" syn-sent")]
            if lines:
                found.append(
                    Evidence(
                        source=process.source.file,
                        line=process.source.line,
                        rank=member.rank,
                        quote=f"pid {member.pid}: {'; '.join(lines[:2])}",
                    )
                )
                break
    return found


def _told(case: Case, at: _At) -> Evidence:
    """Quote where a rank was told its place: in the call, else in its environment."""
    member = case.member(at.member)
    claim = next(
        (c for c in case.job.claims if c.about == "meets_at" and c.who.pid == member.pid), None
    )
    if claim is not None:
        source, quote = claim.source, f"init_process_group at {claim.value}"
    else:
        source, quote = member.processes[-1].source, f"MASTER_ADDR:MASTER_PORT={at.address}"
    return Evidence(
        source=source.file,
        line=source.line,
        rank=member.rank,
        quote=f"pid {member.pid}: {quote}",
    )
