"""Make the bundles of a job on many hosts out of one that was really captured.

Two of the recorded ranks serve as moulds: one that waits, and the one that the others wait for.
Every rank of the made-up job is a copy of the first, one of the second; what differs between
real ranks differs here, too: pids and thread ids, addresses of code (each process is laid out
anew), ports, times, names of hosts. ``write`` lays the hosts out as bundles of their own, the
way ``whyhang collect`` on each of them does, or as one bundle of all.
"""

from __future__ import annotations

import functools
import io
import json
import random
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import zstandard

PER_HOST = 8
SAMPLES = Path(__file__).resolve().parents[1] / "samples"
Layout = Literal["archives", "folders", "merged"]

_NUMBER = re.compile(rb"(?<![\w.])(\d{3,7})(?![\w.])")
_ADDRESS = re.compile(rb"0x([0-9a-f]{12})\b")


@dataclass(frozen=True)
class Fault:
    """Which sample's ranks are the moulds; ``odd`` is None where no rank differs."""

    sample: str
    waiting: int
    odd: int | None
    is_host_dead: bool = False


FAULTS = {
    "rank-elsewhere": Fault("retry-with-backoff", waiting=0, odd=3),
    "dataloader-blocked": Fault("dataloader-worker-blocked", waiting=0, odd=1),
    "dead-host": Fault("retry-with-backoff", waiting=0, odd=None, is_host_dead=True),
    "all-in-one-call": Fault("retry-with-backoff", waiting=0, odd=None),
}


@dataclass(frozen=True)
class HostJob:
    """A job of so many hosts. ``seed`` decides on pids, addresses and times.

    ``spread``: the hosts were looked at within so many seconds, by their clocks.
    """

    fault: str
    hosts: int
    seed: int = 7
    spread: float = 0.4

    @property
    def culprit(self) -> int | None:
        """The rank that is elsewhere, if one is."""
        odd = FAULTS[self.fault].odd
        return None if odd is None else (self.hosts // 3) * PER_HOST + 5

    @property
    def dead(self) -> int | None:
        """The host of which nothing was collected, if there is one."""
        return self.hosts // 3 if FAULTS[self.fault].is_host_dead else None

    def files(self, host: int) -> dict[str, bytes]:
        """Give the bundle of one host: its files by their path, the manifest first."""
        return _files(self, host)


def host_name(host: int) -> str:
    """Name a host."""
    return f"node{host:05d}"


@functools.cache
def _captured(sample: str) -> dict[str, bytes]:
    data = (SAMPLES / sample / "bundle.tar.zst").read_bytes()
    plain = zstandard.ZstdDecompressor().stream_reader(data).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return {
            member.name: stream.read()
            for member in archive
            if (stream := archive.extractfile(member)) is not None
        }


@functools.cache
def _manifest(sample: str) -> dict[str, Any]:
    return json.loads(_captured(sample)["manifest.json"])


@functools.cache
def _records(sample: str) -> dict[str, list[dict[str, Any]]]:
    """Give the facts in each of whyhang's own files of a sample."""
    return {
        name: content["facts"]
        for name, data in _captured(sample).items()
        if isinstance(content := json.loads(data), dict) and "facts" in content
    }


def _files(job: HostJob, host: int) -> dict[str, bytes]:
    fault = FAULTS[job.fault]
    made = _Host(job, host)
    entries: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}

    def add(entry: dict[str, Any], data: bytes) -> None:
        entries.append(entry)
        files[entry["path"]] = data

    for entry in _manifest(fault.sample)["files"]:
        path = entry["path"]
        if path in _records(fault.sample):
            shown = {**entry, "path": made.path(path), "host": made.name}
            add({**shown, "taken_at": made.time(entry["taken_at"])}, made.own_file(path, entry))
        elif entry["role"] == "launcher":
            add(*made.dump(entry, made.launcher()))
        else:
            for local in range(PER_HOST):
                if made.mould(local) == (
                    entry["owner_rank"] if entry["rank"] is None else entry["rank"]
                ):
                    add(*made.dump(entry, made.process(local)))
    manifest = {
        **_manifest(fault.sample),
        "host": made.name,
        "created_at": made.time(_manifest(fault.sample)["created_at"]),
        "files": entries,
    }
    return {"manifest.json": msgspec.json.encode(manifest), **files}


@dataclass(frozen=True)
class _Copy:
    """One process group of a rank as it is copied: numbers that are replaced, and the shift."""

    rank: int | None
    local: int | None
    numbers: dict[bytes, bytes]
    slide: int


class _Host:
    """One host of the made-up job: where its copies differ from what was captured."""

    def __init__(self, job: HostJob, host: int) -> None:
        self.job, self.host = job, host
        self.fault = FAULTS[job.fault]
        self.name = host_name(host)
        self.address = f"10.{64 + host // 62500}.{host // 250 % 250}.{host % 250 + 1}"
        self._chance = random.Random(job.seed * 1_000_003 + host)
        self._pids = self._chance.randrange(2_000, 3_000_000)
        self._late = self._chance.uniform(0.0, job.spread)
        self._processes = [self._copy(local) for local in range(PER_HOST)]
        self._launcher = _Copy(None, None, self._numbers(PER_HOST), 0)

    def mould(self, local: int) -> int:
        """Tell which captured rank this one is a copy of."""
        is_odd = self.job.culprit == self.host * PER_HOST + local
        odd = self.fault.odd
        return odd if is_odd and odd is not None else self.fault.waiting

    def process(self, local: int) -> _Copy:
        return self._processes[local]

    def launcher(self) -> _Copy:
        return self._launcher

    def path(self, path: str) -> str:
        return f"{self.name}/{path.partition('/')[2]}"

    def time(self, moment: float | None) -> float | None:
        return None if moment is None else moment + self._late

    def dump(self, entry: dict[str, Any], copy: _Copy) -> tuple[dict[str, Any], bytes]:
        """Copy one dump of stacks."""
        name = entry["path"].partition("/")[2]
        _, _, rest = name.partition(".") if name.startswith("rank") else ("", "", name)
        pid = self._number(entry["pid"], copy)
        rest = rest.replace(str(entry["pid"]), str(pid))
        prefix = "" if copy.rank is None else f"rank{copy.rank:05d}."
        made = {
            **entry,
            "path": f"{self.name}/{prefix}{rest}",
            "host": self.name,
            "pid": pid,
            "taken_at": self.time(entry["taken_at"]),
        }
        if entry["rank"] is not None:
            made |= {"rank": copy.rank, "local_rank": copy.local}
        elif entry["owner_rank"] is not None:
            made["owner_rank"] = copy.rank
        data = _captured(self.fault.sample)[entry["path"]]
        return made, _shifted(_renumbered(data, copy.numbers), copy.slide)

    def own_file(self, path: str, entry: dict[str, Any]) -> bytes:
        """Copy one of whyhang's own files: a row for each process of this host."""
        rows = list(self._rows(_records(self.fault.sample)[path]))
        text = ",\n".join(
            "    {\n"
            + ",\n".join(f'      "{k}": {json.dumps(v)}' for k, v in row.items())
            + "\n    }"
            for row in rows
        )
        head = f'{{\n  "whyhang": "{entry["kind"]}",\n  "format": 1,\n  "facts": ['
        return f"{head}\n{text}\n  ]\n}}\n".encode()

    def _rows(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for row in rows:
            if "role" in row:
                yield from self._processes_of(row)
            elif row.get("about") == "world_size":
                yield self._here({**row, "value": str(self.job.hosts * PER_HOST)})
            else:
                yield self._here(row)

    def _processes_of(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if row["role"] == "launcher":
            yield self._row(row, self._launcher)
            return
        mould = int(row["environ"]["RANK"])
        for local, copy in enumerate(self._processes):
            if self.mould(local) == mould:
                yield self._row(row, copy)

    def _row(self, row: dict[str, Any], copy: _Copy) -> dict[str, Any]:
        made = self._here(json.loads(_renumbered(json.dumps(row).encode(), copy.numbers)))
        made["taken_at"] = self.time(row["taken_at"])
        if copy.rank is not None:
            if made["who"]["rank"] is not None:
                made["who"] |= {"rank": copy.rank, "local_rank": copy.local}
            made["environ"] |= {
                "RANK": str(copy.rank),
                "ROLE_RANK": str(copy.rank),
                "LOCAL_RANK": str(copy.local),
                "GROUP_RANK": str(self.host),
                "GROUP_WORLD_SIZE": str(self.job.hosts),
                "LOCAL_WORLD_SIZE": str(PER_HOST),
                "WORLD_SIZE": str(self.job.hosts * PER_HOST),
                "ROLE_WORLD_SIZE": str(self.job.hosts * PER_HOST),
                "MASTER_ADDR": host_name(0),
            }
        made["descriptors"] = [
            text.replace("127.0.0.1", self.address) for text in made["descriptors"]
        ]
        return made

    def _here(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "who": {**row["who"], "host": self.name}} if "who" in row else dict(row)

    def _number(self, pid: int, copy: _Copy) -> int:
        return int(copy.numbers.get(b"%d" % pid, b"%d" % pid))

    def _copy(self, local: int) -> _Copy:
        slide = self._chance.randrange(1 << 20) << 12
        rank = self.host * PER_HOST + local
        return _Copy(rank, local, self._numbers(local), slide)

    def _numbers(self, local: int) -> dict[bytes, bytes]:
        """Give each captured pid and thread id the one that stands for it in a copy."""
        ids = _ids(self.fault.sample)
        first = self._pids + local * (len(ids) + 3)
        return {b"%d" % number: b"%d" % (first + place) for place, number in enumerate(ids)}


@functools.cache
def _ids(sample: str) -> tuple[int, ...]:
    """Collect the pids and thread ids that a sample names."""
    ids: set[int] = set()
    for rows in _records(sample).values():
        for row in rows:
            if "role" in row:
                ids |= {row["who"]["pid"], *(thread["tid"] for thread in row["threads"])}
    return tuple(sorted(ids))


def _renumbered(data: bytes, numbers: dict[bytes, bytes]) -> bytes:
    return _NUMBER.sub(lambda match: numbers.get(match[1], match[1]), data)


def _shifted(data: bytes, slide: int) -> bytes:
    return _ADDRESS.sub(lambda match: b"0x%012x" % ((int(match[1], 16) + slide) % (1 << 47)), data)


def write(job: HostJob, folder: Path, layout: Layout) -> Path:
    """Write the bundles of all hosts but a dead one; return what to hand to whyhang."""
    hosts = [host for host in range(job.hosts) if host != job.dead]
    if layout == "merged":
        target = folder / "job.tar.zst"
        _write_merged(job, hosts, target)
        return target
    for host in hosts:
        files = job.files(host)
        if layout == "archives":
            _write_archive(files, folder / f"{host_name(host)}.tar.zst")
        else:
            for name, data in files.items():
                place = folder / host_name(host) / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
    return folder


def _write_archive(files: dict[str, bytes], target: Path) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in files.items():
            _add(archive, name, data)
    target.write_bytes(zstandard.ZstdCompressor(level=3).compress(plain.getvalue()))


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def _write_merged(job: HostJob, hosts: list[int], target: Path) -> None:
    """Write one bundle of all hosts, its manifest first; the hosts are made twice for that."""
    manifests = (json.loads(job.files(host)["manifest.json"]) for host in hosts)
    first = next(manifests)
    entries = [*first["files"], *(entry for one in manifests for entry in one["files"])]
    manifest = {**first, "host": None, "target": None, "files": entries}
    with (
        target.open("wb") as raw,
        zstandard.ZstdCompressor(level=3).stream_writer(raw) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        _add(archive, "manifest.json", msgspec.json.encode(manifest))
        for host in hosts:
            for name, data in job.files(host).items():
                if name != "manifest.json":
                    _add(archive, name, data)
