"""Matchers over the place where ranks meet at start-up: whether each reaches it, and what is there.

What a rank is told is read from the call that it is in, else from its environment. What
is at that place was asked from the rank's own network (``StoreView``).
"""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.match.meeting_words import SAYS, knocking, told_to, view_evidence, view_fields
from whyhang.analyzer.match.starting import (
    OPEN,
    distinct_views,
    is_address,
    is_inward,
    on_other_host,
    owner_is_late,
    same_place,
    stand_of_owner,
    stands_of,
    starting_ranks,
    usual_address,
)
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.describe import evidence_of, location_of, subject_fields


class CutOff(Record):
    """Ranks that start do not reach the store at the place they were told.

    ``outcomes`` are those of ``StoreView`` that count. Where others do reach theirs, those that
    do not are blamed; else nobody is. A store that is not there yet because its rank is late is
    no such case.
    """

    outcomes: tuple[str, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks that are cut off in this way."""
        here = starting_ranks(case)
        away = [at for at in here if at.view is not None and at.view.outcome in self.outcomes]
        there = [at for at in here if at.view is not None and at.view.outcome in OPEN]
        if not away or case.graph.progress or (not there and owner_is_late(case)):
            return ()
        views = distinct_views(at.view for at in away)
        elsewhere = {at.view.host for at in there if at.view is not None}
        few = len(away) < len(here) - len(away) or len(views) == 1
        names = bool(there) and few
        strength = 1.0 if there or stand_of_owner(case) is not None else INCOMPLETE
        fields = subject_fields(case, stands_of(case, away), tuple(at.member for at in there))
        fields |= view_fields(views[0])
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
                    *(view_evidence(view) for view in views[:3]),
                    *knocking(case, away),
                    *(view_evidence(view) for view in distinct_views(at.view for at in there)[:1]),
                    *evidence_of(case, case.states[away[0].member])[:1],
                ),
                strength=strength,
                names_culprit=names,
                location=location_of(case, case.states[away[0].member]),
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
        here = [at for at in starting_ranks(case) if at.view is not None and at.view.resolved]
        good = [at for at in here if at.view is not None and at.view.outcome in OPEN]
        bad = [at for at in here if at not in good]
        if case.graph.progress or not bad or not (good or self.loopback):
            return ()
        if self.loopback:
            bad = [at for at in bad if is_inward(at) and on_other_host(case, at, good)]
            if not bad:
                return ()
        else:
            usual = {(at.view.host, at.view.resolved) for at in good if at.view is not None}
            names = {name for name, _ in usual if not is_address(name)}
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
        fields = subject_fields(case, stands_of(case, bad), tuple(at.member for at in good))
        fields |= view_fields(first)
        fields["usual"] = ", ".join(other.resolved) if other is not None else "?"
        views = distinct_views(at.view for at in (*bad[:3], *good[:1]))
        return (
            Hit(
                members=tuple(at.member for at in bad),
                affected=tuple(at.member for at in good),
                evidence=(
                    *(view_evidence(view) for view in views),
                    *evidence_of(case, case.states[bad[0].member])[:1],
                ),
                names_culprit=not self.loopback or len(bad) < len(good),
                location=location_of(case, case.states[bad[0].member]),
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
        here = starting_ranks(case)
        usual = usual_address(case, here)
        if usual is None or case.graph.progress:
            return ()
        odd = [at for at in here if at.address != usual and not same_place(at, here, usual)]
        rest = [at for at in here if at.address == usual]
        if not odd:
            return ()
        fields = subject_fields(case, stands_of(case, odd), tuple(at.member for at in rest))
        fields["theirs"], fields["usual"] = str(odd[0].address), str(usual)
        view = odd[0].view
        fields["there"] = (
            f", where {SAYS[view.outcome]}" if view is not None and view.outcome in SAYS else ""
        )
        proven = stand_of_owner(case) is not None or len(odd) < len(rest)
        return (
            Hit(
                members=tuple(at.member for at in odd),
                affected=tuple(at.member for at in rest),
                evidence=(
                    *(told_to(case, at) for at in (*odd[:3], *rest[:2])),
                    *([view_evidence(view)] if view is not None else []),
                    *evidence_of(case, case.states[odd[0].member])[:1],
                ),
                names_culprit=proven,
                strength=CLEAR if proven else INDIRECT,
                location=location_of(case, case.states[odd[0].member]),
                fields=fields,
            ),
        )


def meets_elsewhere() -> MeetsElsewhere:
    """Ask for ranks that were told another place; see ``MeetsElsewhere``."""
    return MeetsElsewhere()


class LargeLost(Record):
    """Small packets to the master's host come back, and those of full size vanish (a probe)."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks of which that is so; it is the way, not the rank."""
        lost = [v for v in case.job.stores if v.echo_small is True and v.echo_large is False]
        pids = {pid for view in lost for pid in view.asked_by}
        members = [m.id for m in case.job.members if m.pid in pids]
        if not members or case.graph.progress:
            return ()
        fields = subject_fields(case, [case.states[number] for number in members], ())
        fields |= {**view_fields(lost[0]), "mtu": str(lost[0].mtu)}
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
