"""Which libraries each rank has loaded, and their versions: what must be the same on all ranks.

/proc/PID/maps names the files; of those that matter the build id is read from the note in the
ELF header (``NT_GNU_BUILD_ID``, elf(5)), once for each file. Nothing is hashed, run or imported.
Versions come from what lies beside the library: torch/version.py, the name of the package. Those
of the job are told by the files that its frames come from, also before a library is loaded.
"""

import functools
import re
import struct
from collections.abc import Iterable, Iterator

from whyhang.analyzer.facts import Library, Record, Setting, SettingName, Source, Who, replace
from whyhang.collectors import tables
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site

DRIVER = "driver/nvidia/version"


class _Told(Record):
    driver: re.Pattern[bytes]
    mapped: re.Pattern[str]
    file_version: re.Pattern[str]
    package: re.Pattern[str]
    torch: re.Pattern[str]
    torch_frame: re.Pattern[bytes]
    version: re.Pattern[str]
    cuda: re.Pattern[str]


_TOLD = tables.patterns(__package__, "libraries.toml", _Told)

_NOTE = 4
_BUILD_ID = re.compile(rb"\x04\0\0\0([\x01-\xff])\0\0\0\x03\0\0\0GNU\0", re.DOTALL)


def collect(site: Site, collected: Collected) -> None:
    """Tell the versions of the job, and of each rank what it has loaded."""
    fingerprints = Fingerprints(site.host, site.hostname)
    nccl = any(
        thread.name.startswith("pt_nccl") for rank in site.ranks_seen for thread in rank.threads
    )
    dumps = ((dump.pid, dump.data) for dump in site.snapshots[0].dumps)
    collected.facts += fingerprints.of_job(dumps, nccl=nccl)
    collected.facts += fingerprints.facts(site.job.ranks)


def libraries(maps: bytes, who: Who, source: Source) -> Iterator[Library]:
    """List the libraries in a maps file whose identity matters, each once, by their inodes."""
    by_path: dict[str, Library] = {}
    for match in _TOLD.mapped.finditer(maps.decode("utf-8", "replace")):
        library = Library(
            name=match["name"],
            path=match["path"],
            deleted=match["deleted"] is not None,
            inode=f"{match['device']}/{match['inode']}",
            who=who,
            source=source,
        )
        by_path.setdefault(f"{library.path}{match['deleted']}", library)
    yield from by_path.values()


def build_id(files: Files, path: str) -> str | None:
    """Read the build id out of an ELF file of 64 bits; None where there is none."""
    head = files.read(path, most=64).data
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return None
    (offset,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    table = files.read(path, start=offset, most=min(size * count, 1 << 16)).data
    for at in range(0, len(table) - 55, size or 56):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", table, at)
        if kind == _NOTE and length < 1 << 16:
            notes = files.read(path, start=start, most=length).data
            if note := _BUILD_ID.search(notes):
                return notes[note.end() : note.end() + note[1][0]].hex()
    return None


class Fingerprints:
    """Reads the libraries of ranks; what is read of one file is kept for the next rank."""

    def __init__(self, host: Host, hostname: str) -> None:
        self._host = host
        self._hostname = hostname
        self._text = functools.cache(
            lambda path: host.files.read(path, most=10_000).data.decode("utf-8", "replace")
        )
        self._names = functools.cache(lambda folder: host.files.names(folder).names)
        self._builds: dict[str | None, str | None] = {}

    def of_job(self, dumps: Iterable[tuple[int, bytes]], *, nccl: bool) -> Iterator[Setting]:
        """Say which torch, and with ``nccl`` which NCCL, the job runs, by its frames.

        NCCL is that of the Python package; a library put in front of it is not seen.
        """
        frames = ((pid, frame) for pid, data in dumps if (frame := _TOLD.torch_frame.search(data)))
        for pid, frame in frames:
            root = frame[1].decode(errors="replace")
            torch = self._torch_versions(pid, root).get("torch")
            if torch is not None:
                who = Who(host=self._hostname)
                yield Setting(name="torch", value=torch, who=who, source=CLAIMS)
                version = self._package_version(pid, root) if nccl else None
                if version is not None:
                    yield Setting(name="nccl", value=version, who=who, source=CLAIMS)
                return

    def facts(self, ranks: Iterable[JobProcess]) -> Iterator[Setting | Library]:
        """Say of each rank what it has loaded, and of the host which driver it runs."""
        driver = _TOLD.driver.search(self._host.proc.bytes_of(DRIVER) or b"")
        for member in ranks:
            data = self._host.memory(member.pid, "maps")
            if not data:
                continue
            who, source = member.who(self._hostname), Source(file=f"/proc/{member.pid}/maps")
            versions: dict[SettingName, str] = {"driver": driver[1].decode()} if driver else {}
            mapped = {library.name: library for library in libraries(data, who, source)}
            for _, library in sorted(mapped.items()):
                yield replace(library, build=self._build(library))
                versions |= self._versions(member.pid, library)
            for name, value in sorted(versions.items()):
                yield Setting(name=name, value=value, who=who, source=source)

    def _build(self, library: Library) -> str | None:
        if not library.deleted and library.inode not in self._builds:
            path = self._host.proc.path_for(library.who.pid or 0, library.path)
            self._builds[library.inode] = build_id(self._host.files, path)
        return None if library.deleted else self._builds[library.inode]

    def _versions(self, pid: int, library: Library) -> dict[SettingName, str]:
        if library.name in {"libnccl.so", "librccl.so"}:
            version = _TOLD.file_version.search(library.path)
            root, _, _ = library.path.rpartition("/nvidia/nccl/lib/")
            nccl = version[1] if version else self._package_version(pid, root)
            return {"nccl": nccl} if nccl else {}
        match = _TOLD.torch.match(library.path)
        return self._torch_versions(pid, match["root"]) if match is not None else {}

    def _torch_versions(self, pid: int, root: str) -> dict[SettingName, str]:
        text = self._text(self._host.proc.path_for(pid, f"{root}/torch/version.py"))
        version, cuda = _TOLD.version.search(text), _TOLD.cuda.search(text)
        versions: dict[SettingName, str] = {"torch": version[1]} if version else {}
        return versions | ({"cuda": cuda[1]} if cuda else {})

    def _package_version(self, pid: int, root: str) -> str | None:
        """Read the version of nvidia/nccl/lib/libnccl.so.2 off its package's name."""
        names = self._names(self._host.proc.path_for(pid, root)) if root else ()
        return next((match[1] for name in names if (match := _TOLD.package.match(name))), None)


PROBE = Probe(name="the libraries of the ranks", limit=2.0, collect=collect)
