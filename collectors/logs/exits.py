"""Processes that ended, as launchers, schedulers and shells report it.

torchrun and its table of failures (``elastic/multiprocessing``), ``mp.spawn``, DeepSpeed's and
Lightning's launchers, srun, Open MPI, MPICH and Intel MPI, Kubernetes, the shell, the kernel. A
report of signal 15 is kept as it stands: it mostly means that the launcher itself ended the
process.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import (
    Exit,
    Fact,
    ProcessRank,
    Record,
    RootCause,
    Source,
    Trust,
    Who,
    replace,
)
from whyhang.collectors.logs.clock import time_of
from whyhang.collectors.logs.found import FileView, Found, Handler

if TYPE_CHECKING:
    import regex

TABLE_ROW = r"^\s*rank\s*: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)"
FAILED = r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)"
DEEPSPEED = r"\] exits with return code = (?P<code>-?\d+)"
LIGHTNING = r"Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)"
SPAWN = (
    r"(?<!sub)process (?P<index>\d+) terminated with "
    r"(?:signal (?P<signal>SIG[A-Z0-9]+)|exit code (?P<code>\d+))"
)
SPAWN_ERROR = r"^-- Process (?P<index>\d+) terminated with the following error:"
SRUN = r"srun: error: (?P<host>[\w.-]+): tasks? (?P<tasks>\d[\d, -]*): (?P<what>.+)"
SRUN_NODE = r"srun: error: Node failure on (?P<host>[\w.-]+)"
MPIRUN = (
    r"noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) "
    r"exited on(?: signal (?P<signal>\d+)|\s*$)"
)
PALS = (
    r"^(?P<host>[\w.-]+): rank (?P<rank>\d+) "
    r"(?:died from signal (?P<signal>\d+)|exited with code (?P<code>\d+))"
)
MPI_NAME = r"Process name: \[(?:\[\d+,\d+\]|[^\],]*),\s*(?P<rank>\d+)\]"
MPI_ABORT = (
    r"(?:MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator (?P<comm>MPI_COMM_WORLD)?"
    r"|MPI_Abort\(MPI_COMM_WORLD, (?P<code>-?\d+)\) - process (?P<rank2>\d+))"
)
HYDRA = r"=\s+(?:RANK (?P<rank>\d+) )?PID (?P<pid>\d+) RUNNING AT (?P<host>\S+)"
SHELL = (
    r"line \d+: +(?P<pid>\d+) (?P<what>Killed|Segmentation fault|Aborted|Bus error|Terminated)\b"
)
KERNEL = r"\bKill(?:ed)? process (?P<pid>\d+) \("
POD_STATE = r"^\s*Exit Code:\s+(?P<code>\d+)\s*$"
POD_ROW = r"^(?P<pod>[a-z0-9][\w.-]+)\s+\d+/\d+\s+(?P<what>OOMKilled|Error|Evicted|NodeLost)\b"

MAX_EXITS = 20000
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WHAT = (
    ("Killed", signal.SIGKILL),
    ("Out Of Memory", signal.SIGKILL),
    ("OOMKilled", signal.SIGKILL),
    ("Segmentation fault", signal.SIGSEGV),
    ("Aborted", signal.SIGABRT),
    ("Bus error", signal.SIGBUS),
    ("Terminated", signal.SIGTERM),
)
_EXIT_CODE = re.compile(r"[Ee]xit(?:ed with)? (?:code|status):? *(-?\d+)", re.IGNORECASE)
_SIGNAL = re.compile(r"signal (\d+)\b")
_EXITCODE_ROW = re.compile(r"\s*exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_KILLED_BY = re.compile(r"KILLED BY SIGNAL: (\d+)|EXIT (?:CODE|STATUS): (\d+)")


class _Row(Record):
    """One process that ended. ``local`` is its local rank, where that is all that is known."""

    who: Who
    source: Source
    quote: str
    code: int
    time: float | None = None
    task: bool = False  # the number is a task of srun, which need not be a rank


class ExitReader:
    """Collects every report of a process that ended."""

    def __init__(self, file: FileView) -> None:
        self._file = file
        self._rows: list[_Row] = []
        self._roots: list[_Row] = []

    def watches(self) -> dict[str, Handler]:
        """Give the patterns to look for, and what to call with each line found."""
        return {
            TABLE_ROW: self.on_table_row,
            FAILED: self.on_failed,
            DEEPSPEED: self.on_child,
            LIGHTNING: self.on_failed,
            SPAWN: self.on_spawn,
            SPAWN_ERROR: self.on_spawn,
            SRUN: self.on_srun,
            SRUN_NODE: self.on_host,
            MPIRUN: self.on_mpirun,
            PALS: self.on_pals,
            MPI_NAME: self.on_mpi_name,
            MPI_ABORT: self.on_mpi_abort,
            HYDRA: self.on_hydra,
            SHELL: self.on_shell,
            KERNEL: self.on_kernel,
            POD_STATE: self.on_pod_state,
            POD_ROW: self.on_pod_row,
        }

    def _add(self, found: Found, who: Who, code: int, **more: object) -> _Row | None:
        if len(self._rows) >= MAX_EXITS:
            return None
        row = _Row(
            who=who, source=found.source, quote=found.text.strip()[:400], code=code, time=found.time
        )
        row = replace(row, **more)
        self._rows.append(row)
        return row

    def on_table_row(self, found: Found, match: regex.Match[str]) -> None:
        """Read one entry of torchrun's table, from the line with the rank."""
        rank, local = int(match["rank"]), int(match["local"])
        told = next(
            (
                (number, line.text, told)
                for number, line in found.following(3)
                if (told := _EXITCODE_ROW.match(line.text))
            ),
            None,
        )
        if told is None:
            return
        number, text, code = told
        host, time, root = None, None, False
        for before in found.preceding(4):
            host = host or _after(before, "host")
            if _after(before, "time"):
                time = time_of(before.replace("_", " "), self._file.voice.year)
            root = root or before.startswith("Root Cause")
        who = Who(
            rank=rank,
            trust=Trust.CONTENT,
            local_rank=local,
            pid=int(code["pid"]),
            host=short_host(host),
        )
        self._learn_place(rank, local)
        row = self._add(
            found,
            who,
            int(code["code"]),
            source=self._file.document.source(number),
            quote=text.strip(),
            time=time,
        )
        if root and row is not None:
            self._roots.append(row)

    def _learn_place(self, rank: int, local: int) -> None:
        """Learn the map from local to global ranks from a row that has both."""
        if rank == local and rank > 0 and self._file.one_host is None:
            self._file.ranks.setdefault(local, rank)
        elif rank != local:
            self._file.one_host = False

    def on_failed(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that torchrun or Lightning saw fail."""
        who = replace(found.who, pid=int(match["pid"]), host=None)
        if "local" in match.groupdict():
            who = Who(pid=int(match["pid"]), local_rank=int(match["local"]))
        self._add(found, who, int(match["code"]))

    def on_child(self, found: Found, match: regex.Match[str]) -> None:
        """Note that DeepSpeed's launcher saw a process fail.

        It prints the command of the process that it started last, whichever ended: the local
        rank in it is nobody's.
        """
        self._add(found, Who(host=found.who.host), int(match["code"]))

    def on_spawn(self, found: Found, match: regex.Match[str]) -> None:
        """Note a child of ``mp.spawn``; its index is its rank within the host."""
        told = match.groupdict()
        code = int(told.get("code") or 1)
        if name := told.get("signal"):
            code = -_signal(name)
        who = Who(local_rank=int(match["index"]), host=found.who.host)
        if self._file.voice.who.rank is not None:  # a log of one rank: it started one process
            who = self._file.voice.who
        self._add(found, who, code)

    def on_srun(self, found: Found, match: regex.Match[str]) -> None:
        """Note tasks that srun saw end."""
        code = _code(match["what"])
        for task in _numbers(match["tasks"]):
            who = Who(rank=task, trust=Trust.CONTENT, host=short_host(match["host"]))
            self._add(found, who, code, task=True)

    def on_host(self, found: Found, match: regex.Match[str]) -> None:
        """Note a host that failed, with all that ran on it."""
        host = short_host(match["host"])
        self._add(found, Who(host=host, label=host), -signal.SIGKILL)

    def on_mpirun(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that Open MPI's launcher saw killed. Newer versions break the line."""
        pid = int(match["pid"]) or None  # newer versions print 0
        number = match["signal"]
        for _, line in found.following(1) if number is None else ():
            told = _SIGNAL.match(line.text)
            number = told[1] if told else None
        if number is None:
            return
        who = Who(
            rank=int(match["rank"]), trust=Trust.CONTENT, pid=pid, host=short_host(match["host"])
        )
        self._add(found, who, -int(number))

    def on_pals(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that the launcher of Cray systems saw end."""
        code = -int(match["signal"]) if match["signal"] else int(match["code"])
        who = Who(rank=int(match["rank"]), trust=Trust.CONTENT, host=short_host(match["host"]))
        if code:
            self._add(found, who, code)

    def on_mpi_name(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that Open MPI's launcher saw end with an exit code."""
        code = 1
        for _, line in found.following(2):
            if told := _EXIT_CODE.search(line.text):
                code = int(told[1])
        self._add(found, Who(rank=int(match["rank"]), trust=Trust.CONTENT), code)

    def on_mpi_abort(self, found: Found, match: regex.Match[str]) -> None:
        """Note the rank that called MPI_Abort."""
        rank = match["rank"] or match["rank2"]
        if match["rank"] and not match["comm"]:
            return  # a rank within another communicator
        code = int(match["code"]) if match["code"] else 1
        self._add(found, Who(rank=int(rank), trust=Trust.CONTENT), code)

    def on_hydra(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process in the box that MPICH and Intel MPI print."""
        code = 1
        for _, line in found.following(3):
            if told := _KILLED_BY.search(line.text):
                code = -int(told[1]) if told[1] else int(told[2])
        rank = match["rank"]
        who = Who(
            rank=int(rank) if rank else None,
            trust=Trust.CONTENT if rank else Trust.NONE,
            pid=int(match["pid"]),
            host=short_host(match["host"]),
        )
        self._add(found, who, code)

    def on_shell(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that the shell saw killed."""
        self._add(found, Who(pid=int(match["pid"])), _code(match["what"]))

    def on_kernel(self, found: Found, match: regex.Match[str]) -> None:
        """Note a process that the kernel's out-of-memory killer ended."""
        self._add(found, Who(pid=int(match["pid"]), host=found.who.host), -signal.SIGKILL)

    def on_pod_state(self, found: Found, match: regex.Match[str]) -> None:
        """Note a container that ended, in the output of ``kubectl describe``."""
        code = int(match["code"])
        if code == 0:
            return
        quote, pod = found.text.strip(), None
        for before in found.preceding(300):
            if (reason := _after(before, "Reason")) and quote == found.text.strip():
                quote = f"Reason: {reason}, {quote}"
            if before.startswith("Name:"):
                pod = _after(before, "Name")
                break
        self._add(found, Who(label=pod, host=pod), code, quote=quote)

    def on_pod_row(self, found: Found, match: regex.Match[str]) -> None:
        """Note a pod that ended, in the output of ``kubectl get pods``."""
        pod = match["pod"]
        self._add(found, Who(label=pod, host=pod), _code(match["what"]))

    def facts(self) -> Iterator[Fact]:
        """Give each process that ended once, and whom the launcher takes for the root cause."""
        for row in self._distinct():
            who = self._rank_of(row)
            yield _exit(row, who)
            if who.pid is not None and who.rank is not None and who.trust > Trust.INFERRED:
                process = Who(pid=who.pid, host=who.host)
                yield ProcessRank(rank=who.rank, who=process, source=row.source)
        for row in self._roots:
            if row.who.rank is not None:
                yield RootCause(who=row.who, source=row.source)

    def _distinct(self) -> Iterable[_Row]:
        """Leave out a pid's second report; the one that tells a rank is kept."""
        by_pid: dict[int, _Row] = {}
        for row in self._rows:
            known = by_pid.get(row.who.pid) if row.who.pid else None
            if row.who.pid and (known is None or known.who.trust < row.who.trust):
                by_pid[row.who.pid] = row
        return [row for row in self._rows if not row.who.pid or by_pid[row.who.pid] is row]

    def _rank_of(self, row: _Row) -> Who:
        who = row.who
        if row.task and self._file.tasks_are_nodes:
            return Who(host=who.host, label=f"task {who.rank}")
        if who.rank is None and who.local_rank is not None:
            resolved = self._file.resolve(who)
            if resolved.rank is None and self._file.one_host is not False:
                return replace(who, rank=who.local_rank, trust=Trust.INFERRED)
            return resolved
        return who


def _exit(row: _Row, who: Who) -> Exit:
    code = row.code
    killed = -code if code < 0 else code - 128 if 128 < code < 128 + 65 else None
    return Exit(
        who=who,
        source=row.source,
        quote=row.quote,
        exitcode=code if code >= 0 else None,
        signal=killed,
        time=row.time,
    )


def short_host(host: str | None) -> str | None:
    """Cut a domain off a host name; None for names that mean "here"."""
    if host is None or host in _LOOPBACK:
        return None
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]


def _after(line: str, key: str) -> str | None:
    """Give the value of "  host      : node3"."""
    name, colon, value = line.partition(":")
    return value.strip() or None if colon and name.strip() == key else None


def _code(what: str) -> int:
    """Read "Killed", "Exited with exit code 1" as an exit code; minus a signal's number."""
    if told := _EXIT_CODE.search(what):
        return int(told[1])
    return next((-number for word, number in _WHAT if word in what), 1)


def _signal(name: str) -> int:
    number = getattr(signal, name, None)
    return int(number) if isinstance(number, int) else int(signal.SIGKILL)


def _numbers(text: str) -> list[int]:
    """Read "0-3,7"."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        low, dash, high = part.partition("-")
        if low.isdigit() and (high.isdigit() or not dash):
            found += range(int(low), min(int(high or low), int(low) + 4096) + 1)
    return found
