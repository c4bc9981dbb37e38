"""What is wrong where ranks meet: a file that is missing or left over, a port that others hold."""

from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import FileView, Listener, StoreView, counted, grouped, program, replace
from whyhang.analyzer.findings.signature import INDIRECT, Hit
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.queries.hits import hit_about, of_nobody, places_of
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.startup.store_place import (
    cite_view,
    distinct_views,
    starting_ranks,
    view_fields,
)
from whyhang.analyzer.queries.waits.states import is_starting, waiters_for
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.wording.title_fields import subject_fields


@side("meeting_file", fault="missing")
def _missing(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks whose file or folder is missing; nobody is blamed if all lack it."""
    absent = [view for view in case.job.files if not view.exists]
    others = [view for view in case.job.files if view.exists]
    members = _members(case, absent)
    if not absent or not members or case.graph.progress:
        return
    what = "the file" if absent[0].folder_exists else "the folder of the file"
    yield _hit(case, absent, others, {"what": what}, blame=bool(others))


@side("meeting_file", fault="not-shared")
def _not_shared(case: Case) -> Iterator[Hit]:
    """Yield one hit where one path leads to different files.

    The fewest are shown, and blamed if they are fewer than the rest.
    """
    known = [view for view in case.job.files if view.inode is not None]
    for views in grouped(known, lambda view: view.path).values():
        files = grouped(views, lambda view: (view.device, view.inode))
        if len(files) < 2 or case.graph.progress:
            continue
        counts = {file: len(_members(case, files[file])) for file in sorted(files)}
        usual = max(counts, key=counts.__getitem__)
        odd = [view for view in views if view not in files[usual]]
        if members := _members(case, odd):
            yield _hit(case, odd, files[usual], {}, blame=len(members) < counts[usual])
            return


@side("meeting_file", fault="stale")
def _stale(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if the file is left over from an earlier run.

    It holds more processes than ranks, or keys twice.

    Ranks may get through their start-up with it, and wait in their first collective for a process
    of the earlier run. A program that starts its groups twice through one file looks alike, so
    that it counts then only where nobody else holds the ranks up.
    """
    size = case.job.world_size
    starting = is_starting(case)
    if not starting and (case.graph.lagging or not case.graph.operations):
        return  # past the start-up, with somebody whom the others wait for
    for view in case.job.files:
        addresses = [key for key in view.repeated if "//cpu//" in key or "//cuda//" in key]
        over = size is not None and view.processes is not None and view.processes > size
        sure = over and addresses
        if not (over or addresses) or case.graph.progress or not (starting or sure):
            continue
        many = (
            f"{counted(view.processes or 0, 'process')} for {counted(size or 0, 'rank')}"
            if over
            else ""
        )
        twice = f"{addresses[0]} set more than once" if addresses else ""
        fields = {"counted": " and ".join(text for text in (many, twice) if text)}
        if waiting := waiters_for(case):
            hit = _hit(case, [view], [], fields, blame=False, members=waiting)
            yield hit if starting else replace(hit, strength=INDIRECT)
            return


def _members(case: Case, views: Sequence[FileView]) -> tuple[int, ...]:
    return tuple(sorted({number for view in views for number in case.job.members_asked(view)}))


def _hit(
    case: Case,
    views: Sequence[FileView],
    others: Sequence[FileView],
    fields: dict[str, str],
    *,
    blame: bool,
    members: tuple[int, ...] = (),
) -> Hit:
    members = members or _members(case, views)
    rest = _members(case, others)
    have = "has" if len(rest) == 1 else "have"
    hit = hit_about(
        case,
        members,
        rest,
        evidence=(
            *(_cite_file(view) for view in (*views[:3], *others[:2])),
            *places_of(case, members[0]),
        ),
        fields={
            "path": views[0].path,
            "others": case.names(rest) or "the others",
            "instead": f", where {case.names(rest)} {have} it" if rest else "",
            **fields,
        },
    )
    return hit if blame else of_nobody(hit)


def _cite_file(view: FileView) -> Evidence:
    asked = ", ".join(str(pid) for pid in view.asked_by[:4])
    if not view.exists:
        says = "no such file" if view.folder_exists else "no such folder"
    elif view.why:
        says = view.why
    else:
        says = f"device {view.device} inode {view.inode}, {view.size} bytes"
        if view.processes is not None:
            says += f", {counted(view.processes, 'process')} counted"
        if view.repeated:
            says += f", set more than once: {', '.join(view.repeated[:3])}"
    return cite(view.source, f"{view.path} for pid {asked}: {says}")


LATER = 2.0
"""Seconds between the start of an old process and of the first new one."""


@side("port_held", by="stranger")
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
        yield _port_hit(case, view, strangers[0], None, waiting)
        return


@side("port_held", by="leftover")
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
            own = case.job.member_at(view.who.host, one.pid)
            others = [m.id for m in case.job.members if m is not own]
            young = tuple(number for number in others if _begun(case, [number]))
            if not young or min(_begun(case, young)) < one.started_at + LATER:
                continue
            past = set(young) <= inside and (own is None or own.id not in inside)
            if past or _overfull(case, view, young):
                yield _port_hit(case, view, one, own, young)
                return
    return


def _begun(case: Case, members: Iterable[int]) -> list[float]:
    """Return when the processes of members were started, as far as is known."""
    seen = (last for n in members if (last := case.member(n).last) is not None)
    return [process.started_at for process in seen if process.started_at is not None]


def _overfull(case: Case, view: StoreView, young: Sequence[int]) -> bool:
    """Return whether more clients have come than there are ranks; torchrun's agents count too."""
    size, came = case.job.world_size, clients(view)
    elastic = any("TORCHELASTIC_RUN_ID" in case.member(number).environ for number in young)
    return size is not None and came is not None and came > size and not elastic


def _port_hit(
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
            *places_of(case, *([own.id] if own is not None else ()), waiting[0]),
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
    begun = _begun(case, waiting)
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
