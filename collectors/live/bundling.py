"""What was taken of a live job, laid out as the files of a bundle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from whyhang import __version__
from whyhang.analyzer.model import (
    Claim,
    Excerpt,
    Gap,
    Process,
    Record,
    Role,
    Source,
    Trust,
    Who,
    fold,
)
from whyhang.analyzer.model_meeting import FileView, StoreView
from whyhang.analyzer.redact import redact_bytes
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, facts_file, time_text
from whyhang.collectors.live.job.members import Job, Member
from whyhang.collectors.live.probes.recorders import Recorded
from whyhang.collectors.live.process import who
from whyhang.collectors.live.snapshot import Dump
from whyhang.collectors.live.spots import Spot, claims_of

_NAMES = {Role.LAUNCHER: "launcher", Role.DATALOADER_WORKER: "worker", Role.RANK: "rank"}
MANY = 3
"""Equal gaps of more processes than this are told as one."""


class Printed(Record):
    """What was had of the host or the job as a whole, kept as it came: a report, a log.

    ``name`` is the file's, within the folder of the host.
    """

    name: str
    kind: str
    data: bytes
    look: int | None = None
    taken_at: float | None = None


class Taken(Record):
    """Everything that was taken of one job on one host."""

    job: Job
    target: int
    hostname: str
    created_at: float
    looks: int
    interval: float
    processes: tuple[Process, ...]
    dumps: tuple[Dump, ...]
    versions: Mapping[str, str]
    excerpts: tuple[Excerpt, ...]
    gaps: tuple[Gap, ...]
    touched: tuple[str, ...]
    records: tuple[Recorded, ...] = ()
    stores: tuple[StoreView, ...] = ()
    files: tuple[FileView, ...] = ()
    printed: tuple[Printed, ...] = ()
    claims: tuple[Claim, ...] = ()
    fingerprints: tuple[Claim, ...] = ()
    spots: tuple[Spot, ...] = ()


def bundle_of(taken: Taken) -> Bundle:
    """Lay out the files: stacks by rank, then what whyhang itself saw."""
    folder = re.sub(r"[^\w.-]", "_", taken.hostname) or "host"
    files: dict[str, bytes] = {}
    entries: list[Entry] = []
    for look in range(taken.looks):
        told = [process for process in taken.processes if process.look == look]
        if told:
            path = f"{folder}/processes.look{look}.json"
            files[path] = facts_file("processes", told)
            times = [process.taken_at for process in told if process.taken_at is not None]
            entries.append(
                Entry(
                    path=path,
                    kind="processes",
                    host=taken.hostname,
                    look=look,
                    taken_at=min(times, default=None),
                )
            )
    members = {member.pid: member for member in taken.job.members}
    ranks = {member.pid: member.rank for member in taken.job.members}
    width = len(str(max((rank for rank in ranks.values() if rank is not None), default=0)))
    order = {pid: position for position, pid in enumerate(members)}
    for dump in sorted(taken.dumps, key=lambda d: (d.look, d.native, order[d.pid])):
        entry = _dump_entry(dump, members[dump.pid], ranks, folder, taken.hostname, width)
        files[entry.path] = redact_bytes(dump.data)
        entries.append(entry)
    for record in taken.records:
        entry = _record_entry(record, folder, taken.hostname, width)
        files[entry.path] = record.data
        entries.append(entry)
    for text in taken.printed:
        path = f"{folder}/{text.name}"
        files[path] = text.data
        entries.append(
            Entry(
                path=path,
                kind=text.kind,
                host=taken.hostname,
                look=text.look,
                taken_at=text.taken_at,
            )
        )
    for kind, facts in (
        ("stores", taken.stores),
        ("file_stores", taken.files),
        ("excerpts", taken.excerpts),
        ("claims", (*_claims(taken), *taken.fingerprints)),
        ("gaps", tuple(_fold_gaps(taken.gaps))),
    ):
        if facts:
            path = f"{folder}/{kind}.json"
            files[path] = facts_file(kind, facts)
            entries.append(Entry(path=path, kind=kind, host=taken.hostname))
    return Bundle(manifest=_manifest(taken, entries), files=files)


def _manifest(taken: Taken, entries: Sequence[Entry]) -> Manifest:
    return Manifest(
        version=__version__,
        created_at=taken.created_at,
        created=time_text(taken.created_at),
        host=taken.hostname,
        target=taken.target,
        looks=taken.looks,
        interval=taken.interval,
        touched=taken.touched,
        files=tuple(entries),
    )


def _dump_entry(
    dump: Dump,
    member: Member,
    ranks: Mapping[int, int | None],
    folder: str,
    hostname: str,
    width: int,
) -> Entry:
    owner = ranks.get(member.owner) if member.owner is not None else None
    number = member.rank if member.rank is not None else owner
    rank = "" if number is None else f"rank{number:0{width}}."
    role = "" if member.rank is not None else f"{_NAMES.get(member.role, 'process')}."
    tool = "pyspy-native" if dump.native else "pyspy-peers" if dump.peers else "pyspy"
    return Entry(
        path=f"{folder}/{rank}{role}{member.pid}.look{dump.look}.{tool}.json",
        kind=tool.replace("pyspy", "py-spy"),
        host=hostname,
        pid=member.pid,
        rank=member.rank,
        trust=member.trust,
        local_rank=member.local_rank,
        owner_rank=owner,
        role=member.role.value,
        look=dump.look,
        taken_at=dump.taken_at,
    )


def _record_entry(record: Recorded, folder: str, hostname: str, width: int) -> Entry:
    return Entry(
        path=f"{folder}/rank{record.rank:0{width}}.flight_recorder",
        kind="flight-recorder",
        host=hostname if record.pid is not None else None,
        pid=record.pid,
        rank=record.rank,
        trust=Trust.ENVIRONMENT if record.pid is not None else Trust.CONTENT,
        role=Role.RANK.value,
        taken_at=record.modified_at,
    )


def _claims(taken: Taken) -> Iterable[Claim]:
    said = dict(taken.versions)
    if taken.job.launcher is not None:
        said["launcher"] = taken.job.launcher
    if taken.job.world_size is not None:
        said["world_size"] = str(taken.job.world_size)
    backend = _backend(taken.processes)
    if backend is not None:
        said["backend"] = backend
    if backend != "nccl":
        said.pop("nccl_version", None)
    about = Who(host=taken.hostname)
    for name, value in sorted(said.items()):
        yield Claim(about=name, value=value, who=about, source=Source(file="claims.json"))
    yield from claims_of(taken.spots, {m.pid: who(m, taken.hostname) for m in taken.job.members})
    yield from taken.claims


def _backend(processes: Iterable[Process]) -> str | None:
    """Tell the backend by the names of the threads that torch starts for it (torch 2.4+)."""
    names = {t.name for p in processes if p.role is Role.RANK for t in p.threads}
    if any(name.startswith("pt_nccl") for name in names):
        return "nccl"
    return "gloo" if any(name.startswith(("gloo_", "pt_gloo")) for name in names) else None


def _fold_gaps(gaps: Iterable[Gap]) -> Iterable[Gap]:
    """Tell once what is the same at every look, and as one what many processes have in common."""
    groups: dict[tuple[str, str, str], dict[int | None, Gap]] = {}
    for gap in gaps:
        groups.setdefault((gap.why, gap.cost, gap.remedy), {}).setdefault(gap.who.pid, gap)
    for (why, cost, remedy), same in groups.items():
        if len(same) <= MANY:
            yield from same.values()
            continue
        ranks = [gap.who.rank for gap in same.values() if gap.who.rank is not None]
        which = f", of ranks {fold(ranks)} among them" if ranks else ""
        yield Gap(what=f"stacks of {len(same)} processes{which}", why=why, cost=cost, remedy=remedy)
