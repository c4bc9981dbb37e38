"""Matchers over a port that others hold: a stranger, or the last run of the job."""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Listener, Record, StoreView
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.match.meeting_words import (
    holder_evidence,
    holder_fields,
    view_evidence,
    view_fields,
)
from whyhang.analyzer.match.starting import distinct_views, starting_ranks
from whyhang.analyzer.wording.describe import evidence_of, subject_fields

LATER = 2.0
"""Seconds between the start of an old process and of the first new one."""


class PortHeld(Record):
    """A process that is no rank of this start listens where the ranks are to meet."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the holder; no rank is to blame."""
        here = starting_ranks(case)
        if case.graph.progress or not here:
            return ()
        for view in distinct_views(at.view for at in here):
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
        if case.graph.progress:
            return ()
        inside = {at.member for at in starting_ranks(case)}
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
    fields = subject_fields(case, [case.states[n] for n in waiting], ())
    fields |= {**view_fields(view), **holder_fields(case, view, holder, waiting)}
    return Hit(
        members=() if own is None else (own.id,),
        affected=waiting,
        evidence=(
            holder_evidence(view, holder),
            view_evidence(view),
            *(evidence_of(case, case.states[own.id])[:1] if own is not None else ()),
            *evidence_of(case, case.states[waiting[0]])[:1],
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
