"""The processes of this host as a tree, with what each says of itself, read once.

The answers are cached: a job is searched in one moment, not in many.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import Role
from whyhang.analyzer.facts.processes import ENDED_STATES
from whyhang.analyzer.job.launchers import PROGRAMS, RANK_NAMES, launcher_of, program_names
from whyhang.analyzer.job.world import LOOPBACK
from whyhang.collectors.live.files import Files
from whyhang.collectors.live.job.environment import (
    StatedRank,
    environment,
    job_key,
    rank_of,
    split_zeros,
)
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.syscalls import SystemCall, parse_syscall

_LOOPBACK = LOOPBACK | {"0.0.0.0"}  # noqa: S104 - compared, not bound

_MP_MAINS = (
    "multiprocessing.spawn import spawn_main",
    "multiprocessing.forkserver import main",
    "multiprocessing.resource_tracker import main",
    "multiprocessing.semaphore_tracker import main",
)
_FORKSERVER, *_TRACKERS = _MP_MAINS[1:]
_COMPILERS = ("torch/_inductor/compile_worker", "torch._inductor.compile_worker")
_DATA_WORKER = "pt_data_worker"  # torch names the main thread of a DataLoader worker so


class Host:
    """The processes below one /proc at one moment."""

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.stats = {pid: stat for pid, stat in proc.table().items() if pid != os.getpid()}
        self.children: dict[int, list[int]] = {}
        for stat in sorted(self.stats.values(), key=lambda stat: (stat.started, stat.pid)):
            self.children.setdefault(stat.ppid, []).append(stat.pid)
        self.files = Files(proc)
        self._memory: dict[str, bytes | None] = {}
        self._environs: dict[int, dict[str, str]] = {}
        self._places: dict[int, StatedRank | None] = {}

    def prefetch(self, pids: Iterable[int]) -> None:
        """Read command lines and environments of many processes in one go."""
        self._read([f"{pid}/{name}" for pid in pids for name in ("cmdline", "environ")])

    def memory(self, pid: int, name: str) -> bytes | None:
        """Return a file of /proc/PID that needs the memory of the process, as it was first read."""
        if f"{pid}/{name}" not in self._memory:
            self._read([f"{pid}/{name}"])
        return self._memory[f"{pid}/{name}"]

    def _read(self, names: Sequence[str]) -> None:
        paths = {name: f"{self.proc.root}/{name}" for name in names}
        contents = self.files.read_all(list(paths.values()))
        for name, path in paths.items():
            self._memory[name] = None if contents[path].trouble else contents[path].data

    def system_call(self, pid: int, tid: int | None = None) -> SystemCall:
        """Return what a thread waits in now."""
        path = f"{pid}" if tid in {None, pid} else f"{pid}/task/{tid}"
        content = self.files.read(f"{self.proc.root}/{path}/syscall")
        return parse_syscall(content.data.decode(errors="replace"))

    def has_ended(self, pid: int) -> bool:
        """Return whether a process waits to be collected by its parent."""
        return self.stats[pid].state in ENDED_STATES

    def readable(self, pid: int) -> bool:
        """Return whether this user may read the environment of the process."""
        return self.memory(pid, "environ") is not None

    def arguments(self, pid: int) -> tuple[str, ...]:
        """Return the command line."""
        return split_zeros(self.memory(pid, "cmdline"))

    def environ(self, pid: int) -> dict[str, str]:
        """Return the whole environment at exec; not to be kept beyond the search."""
        if pid not in self._environs:
            self._environs[pid] = environment(self.memory(pid, "environ"))
        return self._environs[pid]

    def retitled(self, pid: int) -> bool:
        """Return whether the program overwrote its environment with a title."""
        data = self.memory(pid, "environ")
        return bool(data) and b"=" not in (data or b"").lstrip(b"\0")[:4096]

    def place(self, pid: int) -> StatedRank | None:
        """Say which rank the environment names; a launcher is no rank whatever it inherited."""
        if pid not in self._places:
            named = any(name in (self.memory(pid, "environ") or b"") for name in RANK_NAMES)
            place = rank_of(self.environ(pid)) if named else None
            self._places[pid] = None if place and self.launcher(pid) is not None else place
        return self._places[pid]

    def key(self, pid: int) -> tuple[str, ...] | None:
        """Return what the ranks of the same job share; see ``job_key``."""
        place = self.place(pid)
        key = job_key(self.environ(pid), place) if place is not None else None
        if key is not None and key[0] == "rendezvous" and key[1] in _LOOPBACK:
            return (*key, self.proc.namespace(pid, "net") or "")
        return key

    def identity(self, pid: int) -> tuple[object, ...] | None:
        """Return rank and job as one value: what a rank shares with the processes it starts."""
        place = self.place(pid)
        if place is None:
            return None
        return (place.by, place.rank, place.local_rank, place.world_size, self.key(pid))

    def launcher(self, pid: int) -> str | None:
        """Name the kind of launcher that a process is, by its command line."""
        name = self.stats[pid].comm if pid in self.stats else ""
        if name == "pt_elastic":
            return "torchrun"  # torch names the agent's main thread so, since 2.6
        if name in {"slurmstepd", "raylet"}:
            return PROGRAMS[name]  # slurmstepd rewrites its command line
        return launcher_of(self.arguments(pid))

    def is_python(self, pid: int) -> bool:
        """Return whether the process runs a Python interpreter, by its executable."""
        path = self.proc.link_of(f"{pid}/exe")
        if path is None:
            arguments = self.arguments(pid)
            path = arguments[0] if arguments else self.stats[pid].comm
        return path.rpartition("/")[2].startswith(("python", "pypy", "pt_"))

    def uses_torch(self, pid: int) -> bool:
        """Return whether torch, MPI or NCCL is loaded into the process."""
        maps = self.memory(pid, "maps") or b""
        return any(name in maps for name in (b"libtorch", b"libmpi", b"libnccl"))

    def is_spawned(self, pid: int) -> bool:
        """Return whether the process began as a spawned child of ``multiprocessing``."""
        return any(_MP_MAINS[0] in part for part in self.arguments(pid))

    def is_mp_child(self, pid: int) -> bool:
        """Return whether ``multiprocessing`` started the process: forked, spawned or retitled."""
        parent, arguments = self.stats[pid].ppid, self.arguments(pid)
        return (
            parent in self.stats
            and self.is_python(parent)
            and (
                any(main in part for part in arguments for main in _MP_MAINS)
                or arguments == self.arguments(parent)
                or self.retitled(pid)
            )
        )

    def ancestors(self, pid: int) -> Iterator[int]:
        """Yield the parent, its parent and so on, nearest first."""
        seen = {pid}
        while pid in self.stats:
            pid = self.stats[pid].ppid
            if pid in seen or pid not in self.stats:
                return
            seen.add(pid)
            yield pid

    def between(self, pid: int, top: int) -> list[int]:
        """List the processes above ``pid`` and below ``top``, nearest first."""
        return list(itertools.takewhile(lambda parent: parent != top, self.ancestors(pid)))

    def topmost(self, pids: Sequence[int]) -> list[int]:
        """Keep those that stand below none of the others."""
        every = set(pids)
        return [pid for pid in pids if every.isdisjoint(self.ancestors(pid))]

    def descendants(self, pid: int) -> Iterator[int]:
        """Yield children first, then their children, in the order in which they started."""
        queue = list(self.children.get(pid, ()))
        while queue:
            child = queue.pop(0)
            yield child
            queue.extend(self.children.get(child, ()))

    def tree(self, pid: int) -> Iterator[int]:
        """Yield a process and all below it."""
        yield pid
        yield from self.descendants(pid)

    def python_below(self, pid: int) -> list[int]:
        """List the Python programs below a process."""
        return [one for one in self.descendants(pid) if self.is_python(one)]

    def own_role(self, pid: int) -> Role | None:
        """Say what a process is for where it alone tells: its command line or its name."""
        text = " ".join(self.arguments(pid))
        if any(name in text for name in _TRACKERS) or self._is_forkserver(pid):
            return Role.RESOURCE_TRACKER
        if any(name in text for name in _COMPILERS):
            return Role.COMPILE_WORKER
        return Role.DATALOADER_WORKER if self.stats[pid].comm == _DATA_WORKER else None

    def _is_forkserver(self, pid: int) -> bool:
        """Tell the server from what it forked: these keep its command line."""
        own, parent = self.arguments(pid), self.arguments(self.stats[pid].ppid)
        return any(_FORKSERVER in part for part in own) and own != parent

    def mp_parent(self, pid: int) -> int:
        """Return the process whose ``multiprocessing`` started this one, past a fork server."""
        parent = self.stats[pid].ppid
        if parent in self.stats and self._is_forkserver(parent):
            return self.stats[parent].ppid
        return parent

    def helper_role(self, pid: int, rank: int) -> Role:
        """Say what a process below the rank process ``rank`` does for it."""
        own = self.own_role(pid)
        if own is not None:
            return own
        if any(self.own_role(one) is Role.COMPILE_WORKER for one in self.between(pid, rank)):
            return Role.COMPILE_WORKER
        python = self.is_python(pid) and self.is_mp_child(pid)
        return Role.DATALOADER_WORKER if python else Role.OTHER

    def nameless(self, pid: int) -> bool:
        """Return whether a Python process cannot tell its rank: retitled, ended, someone else's."""
        if self.launcher(pid) is not None or self.place(pid) is not None:
            return False
        silent = self.retitled(pid) or not self.readable(pid) or self.has_ended(pid)
        return silent and self.is_python(pid)

    def script(self, pid: int) -> str:
        """Name what a process runs: the script, module or program."""
        names = list(program_names(self.arguments(pid)))
        return names[-1] if names else self.stats[pid].comm
