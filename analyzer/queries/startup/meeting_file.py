"""Ranks meet through a file (``file://``) that is missing, not shared or left over."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import FileView, counted, replace
from whyhang.analyzer.findings.signature import INDIRECT, Hit
from whyhang.analyzer.queries.waits.states import is_starting, waiters_for
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.wording.describe import evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def _missing(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks whose file or folder is missing; nobody is blamed if all lack it."""
    absent = [view for view in case.job.files if not view.exists]
    others = [view for view in case.job.files if view.exists]
    members = _members(case, absent)
    if not absent or not members or case.graph.progress:
        return
    what = "the file" if absent[0].folder_exists else "the folder of the file"
    yield _hit(case, absent, others, {"what": what}, blame=bool(others))


def _not_shared(case: Case) -> Iterator[Hit]:
    """Yield one hit where one path leads to different files.

    The fewest are shown, and blamed if they are fewer than the rest.
    """
    by_path: dict[str, list[FileView]] = {}
    for view in case.job.files:
        if view.inode is not None:
            by_path.setdefault(view.path, []).append(view)
    for views in by_path.values():
        files = {(view.device, view.inode) for view in views}
        if len(files) < 2 or case.graph.progress:
            continue
        sizes = {file: [v for v in views if (v.device, v.inode) == file] for file in sorted(files)}
        counts = {file: len(_members(case, same)) for file, same in sizes.items()}
        usual = max(counts, key=lambda file: counts[file])
        odd = [view for view in views if (view.device, view.inode) != usual]
        members = _members(case, odd)
        fewer = len(members) < counts[usual]
        if members:
            yield _hit(case, odd, sizes[usual], {}, blame=fewer)
            return


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
    pids = {pid for view in views for pid in view.asked_by}
    return tuple(member.id for member in case.job.members if member.pid in pids)


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
    words = subject_fields(case, [case.states[number] for number in members], rest)
    words |= {"path": views[0].path, "others": words["others"] or "the others", **fields}
    have = "has" if len(rest) == 1 else "have"
    words["instead"] = f", where {case.names(rest)} {have} it" if rest else ""
    return Hit(
        members=members if blame else (),
        affected=rest if blame else tuple(sorted({*members, *rest})),
        evidence=(
            *(_cite_file(view) for view in (*views[:3], *others[:2])),
            *evidence_of(case, case.states[members[0]])[:1],
        ),
        names_culprit=blame,
        location=location_of(case, case.states[members[0]]),
        fields=words,
    )


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


def meeting_file(case: Case, fault: Literal["missing", "not-shared", "stale"]) -> Iterable[Hit]:
    """Yield one hit for what is wrong with the file that ranks meet through, if that is."""
    sides = {"missing": _missing, "not-shared": _not_shared, "stale": _stale}
    return sides[fault](case)
