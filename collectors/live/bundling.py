"""What was taken of a live job, laid out as the files of a bundle."""

import re
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import (
    Excerpt,
    Exit,
    Fact,
    FileView,
    Gap,
    GroupConnections,
    Process,
    Role,
    Setting,
    Statement,
    StoreView,
    Who,
    WorldSize,
    counted,
    fold,
    grouped,
    replace,
)
from whyhang.analyzer.redact import redact, redact_bytes
from whyhang.collectors.files import claims
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest
from whyhang.collectors.files.own_files import facts_file
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.probes.probe import BundleFile
from whyhang.collectors.live.snapshot import Dump

_NAMES = {Role.LAUNCHER: "launcher", Role.DATALOADER_WORKER: "worker", Role.RANK: "rank"}
_KINDS = {
    "stores": StoreView,
    "file_stores": FileView,
    "exits": Exit,
    "excerpts": Excerpt,
    "group_connections": GroupConnections,
}
"""What stands in files of its own."""
MANY = 3
"""Equal gaps of more processes than this are told as one."""


def bundle_of(
    manifest: Manifest,
    job: HostJob,
    processes: Sequence[Process],
    dumps: Iterable[Dump],
    facts: Sequence[Fact] = (),
    brought: Iterable[BundleFile] = (),
) -> Bundle:
    """Lay out the files: what /proc told, stacks by rank, what the probes brought, other facts.

    ``manifest`` says whose all that is; its list of files is made here.
    """
    host = manifest.host or ""
    folder = re.sub(r"[^\w.-]", "_", host) or "host"
    printed = (_without_secrets(file) for file in (*_dump_files(host, job, dumps), *brought))
    facts = (*_of_job(host, job, processes), *facts)
    files = [*_process_files(host, processes), *printed, *_fact_files(host, facts)]
    entries = [replace(file.entry, path=f"{folder}/{file.entry.path}") for file in files]
    touched = tuple(map(redact, manifest.touched))
    return Bundle(
        manifest=replace(manifest, touched=touched, files=tuple(entries)),
        files={entry.path: file.data for entry, file in zip(entries, files, strict=True)},
    )


def _without_secrets(file: BundleFile) -> BundleFile:
    """Blank the secrets in what a tool or the job printed; whyhang's own files have none."""
    binary = file.data.startswith(b"\x80")  # a pickle, whose probe has done it
    return file if binary else replace(file, data=redact_bytes(file.data))


def _process_files(host: str, processes: Iterable[Process]) -> Iterator[BundleFile]:
    for look, seen in sorted(grouped(processes, lambda process: process.look).items()):
        times = [process.taken_at for process in seen if process.taken_at is not None]
        path, began = f"processes.look{look}.json", min(times, default=None)
        entry = Entry(path=path, kind="processes", host=host, look=look, taken_at=began)
        yield BundleFile(entry=entry, data=facts_file("processes", seen))


def _dump_files(host: str, job: HostJob, dumps: Iterable[Dump]) -> Iterator[BundleFile]:
    members = {member.pid: member for member in job.members}
    order = {pid: position for position, pid in enumerate(members)}
    for dump in sorted(dumps, key=lambda d: (d.look, "native" in d.tool, order[d.pid])):
        member = members[dump.pid]
        owner = members.get(member.owner or 0)
        ranks = [each.rank for each in (member, owner) if each and each.rank is not None]
        rank = f"rank{ranks[0]:0{job.rank_width()}}." if ranks else ""
        role = "" if member.rank is not None else f"{_NAMES.get(member.role, 'process')}."
        name = f"{dump.tool.replace('py-spy', 'pyspy')}.{'txt' if dump.tool == 'gdb' else 'json'}"
        entry = Entry(
            path=f"{rank}{role}{member.pid}.look{dump.look}.{name}",
            kind=dump.tool,
            host=host,
            pid=member.pid,
            rank=member.rank,
            trust=member.trust,
            local_rank=member.local_rank,
            owner_rank=owner.rank if owner is not None else None,
            role=member.role.value,
            look=dump.look,
            taken_at=dump.taken_at,
        )
        yield BundleFile(entry=entry, data=dump.data)


def _fact_files(host: str, facts: Sequence[Fact]) -> Iterator[BundleFile]:
    rows: dict[str, list[Fact | claims.ClaimRow]] = {
        kind: [fact for fact in facts if isinstance(fact, record)]
        for kind, record in _KINDS.items()
    }
    statements = (fact for fact in facts if isinstance(fact, Statement))
    rows["claims"] = [row for fact in statements for row in claims.rows(fact)]
    rows["gaps"] = [*_fold_gaps(fact for fact in facts if isinstance(fact, Gap))]
    for kind, of_kind in rows.items():
        if of_kind:
            entry = Entry(path=f"{kind}.json", kind=kind, host=host)
            yield BundleFile(entry=entry, data=facts_file(kind, of_kind))


def _of_job(host: str, job: HostJob, processes: Iterable[Process]) -> Iterator[Statement]:
    who = Who(host=host)
    if backend := _backend(processes):
        yield Setting(name="backend", value=backend, who=who, source=claims.CLAIMS)
    if job.launcher is not None:
        yield Setting(name="launcher", value=job.launcher, who=who, source=claims.CLAIMS)
    if job.world_size is not None:
        yield WorldSize(size=job.world_size, who=who, source=claims.CLAIMS)


def _backend(processes: Iterable[Process]) -> str | None:
    """Tell the backend by the names of the threads that torch starts for it (torch 2.4+)."""
    names = {t.name for p in processes if p.role is Role.RANK for t in p.threads}
    if any(name.startswith("pt_nccl") for name in names):
        return "nccl"
    return "gloo" if any(name.startswith(("gloo_", "pt_gloo")) for name in names) else None


def _fold_gaps(gaps: Iterable[Gap]) -> Iterable[Gap]:
    """Tell once what is the same at every look, and as one what many processes have in common."""
    groups: dict[tuple[str, str, str], dict[int | str, Gap]] = {}
    for gap in gaps:
        same = groups.setdefault((gap.why, gap.cost, gap.remedy), {})
        same.setdefault(gap.what if gap.who.pid is None else gap.who.pid, gap)
    for (why, cost, remedy), same in groups.items():
        if len(same) <= MANY or any(gap.who.pid is None for gap in same.values()):
            yield from same.values()
            continue
        ranks = [gap.who.rank for gap in same.values() if gap.who.rank is not None]
        which = f", of ranks {fold(ranks)} among them" if ranks else ""
        what = f"stacks of {counted(len(same), 'process')}{which}"
        who = Who(host=next(iter(same.values())).who.host)
        yield Gap(what=what, why=why, cost=cost, remedy=remedy, who=who)
