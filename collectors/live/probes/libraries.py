"""Which libraries each rank has loaded, and their versions: what must be the same on all ranks.

/proc/PID/maps names the files; of those that matter the build id is read from the note in the
ELF header (``NT_GNU_BUILD_ID``, elf(5)), once for each file. Nothing is hashed, run or imported.
Versions come from what lies beside the library: torch/version.py, the name of the package. Those
of the job are told by the files that its frames come from, also before a library is loaded.
"""

import re
import struct
from collections.abc import Iterable, Iterator

from whyhang.analyzer.facts import Library, Setting, SettingName, Source, Who, replace
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes.probe import Collected, Probe, Site

DRIVER = "driver/nvidia/version"
_DRIVER = re.compile(rb"Kernel Module(?: for \S+)?\s+(\d[\d.]+)")
_MAPPED = re.compile(
    r"^\S+ \S+ \S+ (?P<device>\S+) (?P<inode>\d+) +(?P<path>/.*/"
    r"(?P<name>libnccl(?:-net|-tuner|-profiler)?[\w.-]*\.so|librccl\.so|libtorch_cuda\.so"
    r"|libtorch_cpu\.so|libcuda\.so|libcudart\.so|libmpi\.so|libgloo[\w-]*\.so)[\d.]*)"
    r"(?P<deleted> \(deleted\))?$",
    re.MULTILINE,
)
_FILE_VERSION = re.compile(r"\.so\.(\d+\.\d+\.\d+)$")
_PACKAGE = re.compile(r"^nvidia_nccl_cu\d+-([\d.]+)\.dist-info$")
_TORCH = re.compile(r"^(?P<root>.*)/torch/lib/libtorch_c(?:pu|uda)\.so")
_TORCH_FRAME = re.compile(rb'"filename": "([^"\n]+)/torch/')
_VERSION = re.compile(r"^__version__ = ['\"]([^'\"]+)['\"]", re.MULTILINE)
_CUDA = re.compile(r"^cuda(?:: [^=]+)? = ['\"]([\d.]+)['\"]", re.MULTILINE)
_NOTE, _BUILD_ID = 4, 3


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
    for match in _MAPPED.finditer(maps.decode("utf-8", "replace")):
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
    if len(head) < 64 or head[:5] != b"\x7fELF\x02":
        return None
    order = "<" if head[5] == 1 else ">"
    (offset,) = struct.unpack_from(f"{order}Q", head, 32)
    size, count = struct.unpack_from(f"{order}HH", head, 54)
    table = files.read(path, start=offset, most=min(size * count, 1 << 16)).data
    for at in range(0, len(table) - 55, size or 56):
        kind, _, start, _, _, length = struct.unpack_from(f"{order}IIQQQQ", table, at)
        if kind == _NOTE and length < 1 << 16:
            identifier = _build_id_in(files.read(path, start=start, most=length).data, order)
            if identifier is not None:
                return identifier
    return None


def _build_id_in(notes: bytes, order: str) -> str | None:
    at = 0
    while at + 12 <= len(notes):
        name, value, kind = struct.unpack_from(f"{order}III", notes, at)
        start = at + 12 + (name + 3) // 4 * 4
        if kind == _BUILD_ID and notes[at + 12 : at + 12 + name] == b"GNU\0":
            return notes[start : start + value].hex()
        at = start + (value + 3) // 4 * 4
    return None


class Fingerprints:
    """Reads the libraries of ranks; what is read of one file is kept for the next rank."""

    def __init__(self, host: Host, hostname: str) -> None:
        self._host = host
        self._hostname = hostname
        self._builds: dict[tuple[str | None, bool], str | None] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def of_job(self, dumps: Iterable[tuple[int, bytes]], *, nccl: bool) -> Iterator[Setting]:
        """Say which torch, and with ``nccl`` which NCCL, the job runs, by its frames.

        NCCL is that of the Python package; a library put in front of it is not seen.
        """
        for pid, data in dumps:
            frame = _TORCH_FRAME.search(data)
            root = frame[1].decode(errors="replace") if frame is not None else ""
            torch = self._torch_versions(pid, root).get("torch") if root else None
            if torch is not None:
                who, source = Who(host=self._hostname), Source(file="claims.json")
                yield Setting(name="torch", value=torch, who=who, source=source)
                version = self._package_version(pid, root) if nccl else None
                if version is not None:
                    yield Setting(name="nccl", value=version, who=who, source=source)
                return

    def facts(self, ranks: Iterable[JobProcess]) -> Iterator[Setting | Library]:
        """Say of each rank what it has loaded, and of the host which driver it runs."""
        driver = _DRIVER.search(self._host.proc.bytes_of(DRIVER) or b"")
        for member in ranks:
            data = self._host.memory(member.pid, "maps")
            if not data:
                continue
            who = Who(rank=member.rank, trust=member.trust, host=self._hostname, pid=member.pid)
            source = Source(file=f"/proc/{member.pid}/maps")
            versions: dict[SettingName, str] = {}
            if driver is not None:
                versions["driver"] = driver[1].decode()
            mapped = {library.name: library for library in libraries(data, who, source)}
            for _, library in sorted(mapped.items()):
                yield replace(library, build=self._build(library))
                versions |= self._versions(member.pid, library)
            for name, value in sorted(versions.items()):
                yield Setting(name=name, value=value, who=who, source=source)

    def _build(self, library: Library) -> str | None:
        key = (library.inode, library.deleted)
        if key not in self._builds:
            path = self._host.proc.path_for(library.who.pid or 0, library.path)
            self._builds[key] = None if library.deleted else build_id(self._host.files, path)
        return self._builds[key]

    def _versions(self, pid: int, library: Library) -> dict[SettingName, str]:
        if library.name in {"libnccl.so", "librccl.so"}:
            version = _FILE_VERSION.search(library.path)
            root, _, _ = library.path.rpartition("/nvidia/nccl/lib/")
            nccl = version[1] if version else self._package_version(pid, root)
            return {"nccl": nccl} if nccl else {}
        match = _TORCH.match(library.path)
        return self._torch_versions(pid, match["root"]) if match is not None else {}

    def _torch_versions(self, pid: int, root: str) -> dict[SettingName, str]:
        path = self._host.proc.path_for(pid, f"{root}/torch/version.py")
        if path not in self._texts:
            content = self._host.files.read(path, most=10_000)
            self._texts[path] = content.data.decode("utf-8", "replace")
        version, cuda = _VERSION.search(self._texts[path]), _CUDA.search(self._texts[path])
        versions: dict[SettingName, str] = {"torch": version[1]} if version else {}
        if cuda:
            versions["cuda"] = cuda[1]
        return versions

    def _package_version(self, pid: int, root: str) -> str | None:
        """Read the version of nvidia/nccl/lib/libnccl.so.2 off its package's name."""
        folder = self._host.proc.path_for(pid, root)
        if root and folder not in self._names:
            self._names[folder] = self._host.files.names(folder).names
        names = self._names.get(folder, ())
        return next((match[1] for name in names if (match := _PACKAGE.match(name))), None)


PROBE = Probe(name="the libraries of the ranks", limit=2.0, collect=collect)
