"""What was taken of a live job, laid out as the files of a bundle."""

import re
from collections.abc import Iterable, Iterator

from whyhang import __version__
from whyhang.analyzer.facts import (
    Excerpt,
    Exit,
    Fact,
    FileView,
    Gap,
    GroupConnections,
    PartOfHost,
    Process,
    Record,
    Role,
    Setting,
    Statement,
    StoreView,
    Who,
    WorldSize,
    counted,
    fold,
    replace,
)
from whyhang.analyzer.redact import redact, redact_bytes
from whyhang.collectors.files import claims
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, time_text
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


class Taken(Record):
    """Everything that was taken of one job on one host.

    ``facts`` and ``files`` are what the probes and the snapshots brought beside ``processes`` and
    ``dumps``.
    """

    job: HostJob
    target: int
    hostname: str
    created_at: float
    looks: int
    interval: float
    processes: tuple[Process, ...]
    dumps: tuple[Dump, ...]
    facts: tuple[Fact, ...] = ()
    files: tuple[BundleFile, ...] = ()
    touched: tuple[str, ...] = ()
    in_container: bool = False


def bundle_of(taken: Taken) -> Bundle:
    """Lay out the files: what /proc told, stacks by rank, what the probes brought, other facts."""
    folder = re.sub(r"[^\w.-]", "_", taken.hostname) or "host"
    printed = (_without_secrets(file) for file in (*_dump_files(taken), *taken.files))
    files = [*_process_files(taken), *printed, *_fact_files(taken)]
    entries = [replace(file.entry, path=f"{folder}/{file.entry.path}") for file in files]
    manifest = Manifest(
        version=__version__,
        created_at=taken.created_at,
        created=time_text(taken.created_at),
        host=taken.hostname,
        target=taken.target,
        looks=taken.looks,
        interval=taken.interval,
        touched=tuple(map(redact, taken.touched)),
        files=tuple(entries),
    )
    data = (file.data for file in files)
    paths = (entry.path for entry in entries)
    return Bundle(manifest=manifest, files=dict(zip(paths, data, strict=True)))


def _without_secrets(file: BundleFile) -> BundleFile:
    """Blank the secrets in what a tool or the job printed; whyhang's own files have none."""
    binary = file.data.startswith(b"\x80")  # a pickle, whose probe has done it
    return file if binary else replace(file, data=redact_bytes(file.data))


def _process_files(taken: Taken) -> Iterator[BundleFile]:
    for look in range(taken.looks):
        processes = [process for process in taken.processes if process.look == look]
        if processes:
            times = [process.taken_at for process in processes if process.taken_at is not None]
            path, began = f"processes.look{look}.json", min(times, default=None)
            host = taken.hostname
            entry = Entry(path=path, kind="processes", host=host, look=look, taken_at=began)
            yield BundleFile(entry=entry, data=facts_file("processes", processes))


def _dump_files(taken: Taken) -> Iterator[BundleFile]:
    members = {member.pid: member for member in taken.job.members}
    order = {pid: position for position, pid in enumerate(members)}
    for dump in sorted(taken.dumps, key=lambda d: (d.look, "native" in d.tool, order[d.pid])):
        member = members[dump.pid]
        owner = members.get(member.owner or 0)
        ranks = [each.rank for each in (member, owner) if each and each.rank is not None]
        rank = f"rank{ranks[0]:0{taken.job.rank_width()}}." if ranks else ""
        role = "" if member.rank is not None else f"{_NAMES.get(member.role, 'process')}."
        name = f"{dump.tool.replace('py-spy', 'pyspy')}.{'txt' if dump.tool == 'gdb' else 'json'}"
        entry = Entry(
            path=f"{rank}{role}{member.pid}.look{dump.look}.{name}",
            kind=dump.tool,
            host=taken.hostname,
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


def _fact_files(taken: Taken) -> Iterator[BundleFile]:
    gaps = (fact for fact in taken.facts if isinstance(fact, Gap))
    statements = (fact for fact in taken.facts if isinstance(fact, Statement))
    rows: dict[str, list[Fact | claims.ClaimRow]] = {
        kind: [fact for fact in taken.facts if isinstance(fact, record)]
        for kind, record in _KINDS.items()
    }
    rows["claims"] = [row for fact in (*_of_job(taken), *statements) for row in claims.rows(fact)]
    rows["gaps"] = [*_fold_gaps(gaps)]
    for kind, facts in rows.items():
        if facts:
            entry = Entry(path=f"{kind}.json", kind=kind, host=taken.hostname)
            yield BundleFile(entry=entry, data=facts_file(kind, facts))


def _of_job(taken: Taken) -> Iterator[Statement]:
    who = Who(host=taken.hostname)
    if backend := _backend(taken.processes):
        yield Setting(name="backend", value=backend, who=who, source=claims.CLAIMS)
    if taken.job.launcher is not None:
        yield Setting(name="launcher", value=taken.job.launcher, who=who, source=claims.CLAIMS)
    if taken.in_container:
        yield PartOfHost(who=who, source=claims.CLAIMS)
    if taken.job.world_size is not None:
        yield WorldSize(size=taken.job.world_size, who=who, source=claims.CLAIMS)


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
