"""Another process holds the port of the store: a stranger, or the last run of the job."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Listener, StoreView, program
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.queries.startup.store_place import (
    cite_view,
    distinct_views,
    starting_ranks,
    view_fields,
)
from whyhang.analyzer.report import cite
from whyhang.analyzer.wording.describe import evidence_of
from whyhang.analyzer.wording.title_fields import subject_fields

LATER = 2.0
"""Seconds between the start of an old process and of the first new one."""


def _by_stranger(case: Case) -> Iterator[Hit]:
    """Yield one hit if a process that is no rank of this start listens where ranks are to meet."""
    here = starting_ranks(case)
    if case.graph.progress or not here:
        return
    for view in distinct_views(here):
        strangers = [one for one in view.listeners if not one.ours and not one.same_script]
        if not strangers or view.own_address is False:
            continue
        waiting = tuple(at.member for at in here if at.view == view)
        yield _held(case, view, strangers[0], None, waiting)
        return


def _by_leftover(case: Case) -> Iterator[Hit]:
    """Yield one hit for a rank of an earlier run of the script that holds the new ranks' store.

    It began before all of them, and either it is past the start-up that they are in, or the store
    has counted more clients than the job has ranks. It is to blame where it is taken for a rank.
    """
    if case.graph.progress:
        return
    inside = {at.member for at in starting_ranks(case)}
    for view in case.job.stores:
        for one in view.listeners:
            if not one.same_script or one.started_at is None or view.own_address is False:
                continue
            own = next((m for m in case.job.members if m.pid == one.pid), None)
            young = tuple(m.id for m in case.job.members if m is not own and _began(m) is not None)
            if not young or any(
                (_began(case.member(n)) or 0) < one.started_at + LATER for n in young
            ):
                continue
            past = set(young) <= inside and (own is None or own.id not in inside)
            if past or _overfull(case, view, young):
                yield _held(case, view, one, own, young)
                return
    return


def _began(member: Member) -> float | None:
    return member.processes[-1].started_at if member.processes else None


def _overfull(case: Case, view: StoreView, young: Sequence[int]) -> bool:
    """Return whether more clients have come than there are ranks; torchrun's agents count too."""
    size, came = case.job.world_size, clients(view)
    elastic = any(
        "TORCHELASTIC_RUN_ID" in case.member(number).processes[-1].environ for number in young
    )
    return size is not None and came is not None and came > size and not elastic


def _held(
    case: Case, view: StoreView, holder: Listener, own: Member | None, waiting: tuple[int, ...]
) -> Hit:
    fields = subject_fields(case, [case.states[n] for n in waiting], ())
    fields |= {**view_fields(view), **_holder_fields(case, view, holder, waiting)}
    owner = f"pid {holder.pid}" if holder.pid is not None else "a process of another user"
    words = f"{holder.address} listen: {owner} {holder.command}"
    return Hit(
        members=() if own is None else (own.id,),
        affected=waiting,
        evidence=(
            cite(view.source, words.rstrip()),
            cite_view(view),
            *(evidence_of(case, case.states[own.id])[:1] if own is not None else ()),
            *evidence_of(case, case.states[waiting[0]])[:1],
        ),
        names_culprit=own is not None,
        fields=fields,
    )


def _time(seconds: float) -> str:
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}s"
    return f"{seconds:.0f} s"


def _holder_fields(
    case: Case, view: StoreView, holder: Listener, waiting: Sequence[int]
) -> dict[str, str]:
    """Return what titles say of who holds a port, and how much older it is than those who wait."""
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
        "command": f" ({program(holder.command)})" if holder.command else "",
        "age": age,
        "of_rank": rank,
        "port": str(view.port),
    }


def port_held(case: Case, by: Literal["stranger", "leftover"]) -> Iterable[Hit]:
    """Yield one hit if a stranger, or a rank of an earlier run, holds the port of the store."""
    return _by_stranger(case) if by == "stranger" else _by_leftover(case)
