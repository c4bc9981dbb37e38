"""Matchers over the file that ranks meet through (``file://``)."""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import FileView, Record, replace
from whyhang.analyzer.findings.signature import INDIRECT, Hit
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import evidence_of, location_of, subject_fields


class FileMissing(Record):
    """The file, or the folder that it should be in, does not exist for some ranks that wait."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Blame ranks whose file is missing where others have it; nobody if all lack it."""
        missing = [view for view in case.job.files if not view.exists]
        others = [view for view in case.job.files if view.exists]
        members = _members(case, missing)
        if not missing or not members or case.graph.progress:
            return ()
        what = "the file" if missing[0].folder_exists else "the folder of the file"
        return (_hit(case, missing, others, members, bool(others), {"what": what}),)


class FileApart(Record):
    """Ranks meet through one path that leads to different files: it is not shared."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; the fewest are shown, and blamed if they are fewer than the rest."""
        by_path: dict[str, list[FileView]] = {}
        for view in case.job.files:
            if view.inode is not None:
                by_path.setdefault(view.path, []).append(view)
        for views in by_path.values():
            files = {(view.device, view.inode) for view in views}
            if len(files) < 2 or case.graph.progress:
                continue
            sizes = {
                file: [v for v in views if (v.device, v.inode) == file] for file in sorted(files)
            }
            counts = {file: len(_members(case, same)) for file, same in sizes.items()}
            usual = max(counts, key=lambda file: counts[file])
            odd = [view for view in views if (view.device, view.inode) != usual]
            members = _members(case, odd)
            fewer = len(members) < counts[usual]
            if members:
                return (_hit(case, odd, sizes[usual], members, fewer, {}),)
        return ()


class FileStale(Record):
    """The file holds what an earlier run put there: more processes than ranks, or keys twice.

    Ranks may get through their start-up with it, and wait in their first collective for a process
    of the earlier run. A program that starts its groups twice through one file looks alike, so
    that it counts then only where nobody else holds the ranks up.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        size = case.job.world_size
        starting = any(meeting.kind is WaitKind.INIT for meeting in case.graph.operations)
        if not starting and (case.graph.lagging or not case.graph.operations):
            return ()  # past the start-up, with somebody whom the others wait for
        for view in case.job.files:
            addresses = [key for key in view.repeated if "//cpu//" in key or "//cuda//" in key]
            over = size is not None and view.processes is not None and view.processes > size
            sure = over and addresses
            if not (over or addresses) or case.graph.progress or not (starting or sure):
                continue
            counted = f"{view.processes} processes for {size} ranks" if over else ""
            twice = f"{addresses[0]} set more than once" if addresses else ""
            fields = {"counted": " and ".join(text for text in (counted, twice) if text)}
            waiting = waiters_for(case)
            if waiting:
                hit = _hit(case, [view], [], tuple(waiting), False, fields)  # noqa: FBT003
                return (hit if starting else replace(hit, strength=INDIRECT),)
        return ()


def file_missing() -> FileMissing:
    """Ask for a file store that is not there; see ``FileMissing``."""
    return FileMissing()


def file_apart() -> FileApart:
    """Ask for a file store that is not shared; see ``FileApart``."""
    return FileApart()


def file_stale() -> FileStale:
    """Ask for a file store of an earlier run; see ``FileStale``."""
    return FileStale()


def _members(case: Case, views: Sequence[FileView]) -> tuple[int, ...]:
    pids = {pid for view in views for pid in view.asked_by}
    return tuple(member.id for member in case.job.members if member.pid in pids)


def _hit(
    case: Case,
    views: Sequence[FileView],
    others: Sequence[FileView],
    members: tuple[int, ...],
    names: bool,  # noqa: FBT001
    fields: dict[str, str],
) -> Hit:
    rest = _members(case, others)
    words = subject_fields(case, [case.states[number] for number in members], rest)
    words |= {"path": views[0].path, "others": words["others"] or "the others", **fields}
    words["instead"] = f", where {case.names(rest)} {_have(rest)} it" if rest else ""
    return Hit(
        members=members if names else (),
        affected=rest if names else tuple(sorted({*members, *rest})),
        evidence=(
            *(_seen(view) for view in (*views[:3], *others[:2])),
            *evidence_of(case, case.states[members[0]])[:1],
        ),
        names_culprit=names,
        location=location_of(case, case.states[members[0]]),
        fields=words,
    )


def _have(members: Sequence[int]) -> str:
    return "has" if len(members) == 1 else "have"


def _seen(view: FileView) -> Evidence:
    asked = ", ".join(str(pid) for pid in view.asked_by[:4])
    if not view.exists:
        said = "no such file" if view.folder_exists else "no such folder"
    elif view.why:
        said = view.why
    else:
        said = f"device {view.device} inode {view.inode}, {view.size} bytes"
        if view.processes is not None:
            said += f", {view.processes} processes counted"
        if view.repeated:
            said += f", set more than once: {', '.join(view.repeated[:3])}"
    return Evidence(
        source=view.source.file,
        line=view.source.line,
        rank=None,
        quote=f"{view.path} for pid {asked}: {said}",
    )
