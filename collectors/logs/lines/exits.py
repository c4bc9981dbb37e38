"""Processes that ended, as launchers, schedulers and shells report it.

torchrun and its table of failures (``elastic/multiprocessing``), ``mp.spawn``, DeepSpeed's and
Lightning's launchers, srun, Open MPI, MPICH and Intel MPI, Kubernetes, the shell, the kernel. A
report of signal 15 is kept as it stands: it mostly means that the launcher itself ended the
process.
"""

import re
import signal
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.facts import (
    CRASHES,
    Exit,
    Fact,
    ProcessRank,
    Record,
    RootCause,
    Source,
    Trust,
    Who,
    replace,
    unfold,
)
from whyhang.collectors import tables
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.exits_of_several import (
    MAX_EXITS,
    code_of,
    exit_code,
    exit_of,
    named_by,
    named_host,
    value_after,
)
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants
from whyhang.collectors.logs.text.clock import time_of

GRACE = 30.0  # seconds that torchrun gives processes to end
ROWS = 4  # of torchrun's table above a rank: host, time, a number, a heading
ROWS_OF_ACTOR = 8  # that Ray prints of an actor: its class, pid, name, address
MAX_STEP = 20  # lines from a command to what srun reports of its tasks


class _Report(Record):
    """A line that names a process: how many below may say how it ended, in which words.

    ``here``: on the host of who speaks. ``code`` counts where no line says how it ended.
    """

    names: str
    most: int = 0
    ends: str = ""
    code: int | None = None
    here: bool = False
    kills_others: bool = False


class _Table(Record):
    one_line: tuple[str, ...]
    reports: tuple[_Report, ...]
    actor: re.Pattern[str]
    row_rank: re.Pattern[str]
    field_rank: re.Pattern[str]
    srun: re.Pattern[str]
    looks: re.Pattern[str]
    pid: re.Pattern[str]


_TABLE = tables.patterns(__package__, "exits.toml", _Table)
_REPORTS = {
    **{names: _Report(names=names, code=1) for names in _TABLE.one_line},
    **{report.names: report for report in _TABLE.reports},
}


class ExitReader(LineReader):
    """Collects every report of a process that ended."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._rows: list[Exit] = []
        self._roots: list[Exit] = []
        self._srun_saw_fail = False
        self._crashes: set[int] = set()  # signals by which tasks have crashed
        self._step_is_ended = False  # by srun, since a task failed
        self._at_the_limit = False  # Slurm ended the job at its time limit
        self._killed_behind: set[Source] = set()
        self._tasks: set[Source] = set()  # where srun numbers tasks, which need not be ranks
        self._killed: set[Source] = set()  # where MPICH and Intel MPI say so of a process
        self._forced: set[int] = set()  # pids that torchrun killed, for they did not heed SIGTERM

    def _add(self, line: FoundLine, who: Who, code: int, **more: object) -> Exit | None:
        """Note a process that ended; ``code`` is minus its signal's number, if one killed it."""
        if len(self._rows) >= MAX_EXITS:
            return None
        row = replace(exit_of(who, line, code), **more)
        self._rows.append(row)
        return row

    @wants(r"(?i)\bexit ?(?:code|status)\W{1,4}?(?P<code>-?\d{1,3})\b")
    def on_fields(self, line: FoundLine, match: Match) -> None:
        """Read rank and exit code that stand as fields in one line, or below each other.

        So they do in torchrun's table of failures, also where it has lost its form in a paste, and
        in other launchers' words.
        """
        before, after = line.text[: match.start()], line.text[match.end() :]
        above = [] if before.strip() else [*line.preceding(3 + ROWS)]
        rows = filter(None, map(_TABLE.row_rank.match, above[:3]))
        rank = _TABLE.field_rank.search(before) or next(rows, None)
        code = int(match["code"])
        if rank is None or not code:
            return
        texts = [after, *(below.text for _, below in line.following(3))]
        pid = next((pid for text in texts if (pid := _TABLE.pid.search(text))), None)
        who = Who(
            rank=None if rank["local"] else int(rank["rank"]),
            trust=Trust.NONE if rank["local"] else Trust.CONTENT,
            local_rank=int(rank["rank"]) if rank["local"] else None,
            pid=int(pid[1]) if pid else None,
        )
        if local := rank.groupdict().get("of_host"):
            table = above[above.index(rank.string) :][: 1 + ROWS]
            self._on_table(line, replace(who, local_rank=int(local)), code, table)
        else:
            self._add(line, who, code)

    def _on_table(self, line: FoundLine, who: Who, code: int, rows: Sequence[str]) -> None:
        """Read one entry of torchrun's table: the rows above the exit code, nearest first."""
        told = {
            key.strip(): value.strip() for key, _, value in (row.partition(":") for row in rows)
        }
        time = time_of(told.get("time", "").replace("_", " "), self._file.voice.year)
        self._learn_place(who.rank or 0, who.local_rank or 0)
        added = self._add(line, replace(who, host=named_host(told.get("host"))), code, time=time)
        if added is not None and any(row.startswith("Root Cause") for row in rows):
            self._roots.append(added)

    def _learn_place(self, rank: int, local: int) -> None:
        """Learn the map from local to global ranks from a row that has both."""
        if rank == local and rank > 0 and self._file.one_host is None:
            self._file.ranks.setdefault(local, rank)
        elif rank != local:
            self._file.one_host = False

    @wants(*_REPORTS)
    def on_report(self, line: FoundLine, match: Match) -> None:
        """Note a process of which the same line, or one of those below, says how it ended."""
        report = _REPORTS[match.re.pattern]
        code = exit_code(match, report.code)
        for _, after in line.following(report.most if code == report.code else 0):
            if end := re.search(report.ends, after.text):
                code = exit_code(end, 1)
        if code:
            who = named_by(match)
            who = replace(who, host=line.who.host) if report.here else who
            self._add(line, who, code, ends_all="failed (exitcode" in line.text)
        if report.kills_others and code == -signal.SIGKILL:
            self._killed.add(line.source)

    @wants(
        r"(?:\[rank: (?P<rank>\d+)\] )?Child process with PID (?:(?P<pid>\d+)|\S+) terminated with "
        r"code (?P<code>-?\d+)"
    )
    def on_child_of_rank(self, line: FoundLine, match: Match) -> None:
        """Note a process that Lightning saw fail; its rank may stand behind a logger's header."""
        told = named_by(match)
        who = replace(line.who if told.rank is None else told, pid=told.pid, host=None)
        self._add(line, who, int(match["code"]))

    @wants(
        r"(?:ActorDied|RayActor)Error: The actor (?:died (?:unexpectedly|because its)|is dead)",
        r"^The actor died unexpectedly before finishing this task",
    )
    def on_ray_actor(self, line: FoundLine, match: Match) -> None:
        """Note an actor that Ray lost: below it stand its pid, or a name that ends in its place."""
        self._add_actors(line, [after.text for _, after in line.following(ROWS_OF_ACTOR)])

    @wants(r"^\*{3} (?P<signal>SIG(?:SEGV|BUS|ILL|FPE)) received at time=\d+")
    def on_crash_of_its_own(self, line: FoundLine, match: Match) -> None:
        """Note the crash that a process tells itself; who lost it knows no more than that.

        Only of a process that the line names: what it has forked prints the same beside it.
        """
        if line.who.pid is not None:
            self._add(line, line.who, exit_code(match, None) or 0)

    @wants(r"^The actor is dead because its worker process has died")
    def on_end_of_ray_actor(self, line: FoundLine, match: Match) -> None:
        """Note an actor of which the first line is lost: its pid and name stand above."""
        above = list(line.preceding(ROWS_OF_ACTOR))
        if not any("The actor died" in text for text in above):
            self._add_actors(line, above)

    def _add_actors(self, line: FoundLine, rows: Sequence[str]) -> None:
        for row in rows:
            named = _TABLE.actor.match(row)
            if named is None or named["node"] not in {None, "0"}:
                continue
            who = Who(rank=int(named["local"] or 0), trust=Trust.INFERRED)
            who = who if named["pid"] is None else Who(pid=int(named["pid"]))
            self._add(line, who, 0, exitcode=None, quote=row.strip())

    @wants(
        r"(?<!sub)process (?P<local>\d+) terminated with "
        r"(?:signal (?P<signal>SIG[A-Z0-9]+)|exit code (?P<code>\d+))",
        r"^-- Process (?P<local>\d+) terminated with the following error:",
    )
    def on_spawn(self, line: FoundLine, match: Match) -> None:
        """Note a child of ``mp.spawn``; its index is its rank within the host."""
        who = replace(named_by(match), host=line.who.host)
        if self._file.voice.who.rank is not None:  # a log of one rank: it started one process
            who = self._file.voice.who
        self._add(line, who, exit_code(match, 1) or 0)

    @wants(r"[a-z]run: error: (?P<host>[\w.-]+): tasks? (?P<tasks>\d[\d, -]*): (?P<what>.+)")
    def on_srun(self, line: FoundLine, match: Match) -> None:
        """Note tasks that srun saw end; what it kills behind one that failed is no failure.

        The tasks of a command that only looks at the job (``srun … py-spy dump``) are none of it.
        """
        above = (line.text[: match.start()], *line.preceding(MAX_STEP))
        started = next((command for text in above if (command := _TABLE.srun.search(text))), None)
        if started is not None and _TABLE.looks.search(started["command"]):
            return
        code = code_of(match["what"])
        # One that crashes as another one did before it has the same fault, and no part in the end.
        crashes_alike = code in self._crashes
        if (self._step_is_ended and not crashes_alike) or (
            code == -signal.SIGKILL and self._srun_saw_fail
        ):
            self._killed_behind.add(line.source)
        if code is not None and -code in CRASHES:
            self._crashes.add(code)
        self._srun_saw_fail |= code not in {0, None, -signal.SIGKILL, -signal.SIGTERM}
        self._tasks.add(line.source)
        for task in unfold(match["tasks"]):
            who = Who(rank=task, trust=Trust.CONTENT, host=named_host(match["host"]))
            self._add(line, who, code)

    @wants(
        r"srun: launch/slurm: _step_signal: Terminating StepId", r"\*{3} STEP \S+ ON \S+ CANCELLED"
    )
    def on_end_of_step(self, line: FoundLine, match: Match) -> None:
        """Note that srun ends the other tasks: with what code they leave then is no failure."""
        self._step_is_ended = self._srun_saw_fail

    @wants(r"CANCELLED AT \S+ DUE TO TIME LIMIT")
    def on_time_limit(self, line: FoundLine, match: Match) -> None:
        """Note that Slurm kills the tasks, whatever they did."""
        self._at_the_limit = True

    @wants(r"srun: error: Node failure on (?P<host>[\w.-]+)")
    def on_host(self, line: FoundLine, match: Match) -> None:
        """Note a host that failed, with all that ran on it."""
        host = named_host(match["host"])
        self._add(line, Who(host=host, label=host), -signal.SIGKILL)

    @wants(r"Unable to shutdown process (?P<pid>\d+) via .{1,30}, forcefully exit")
    def on_force(self, line: FoundLine, match: Match) -> None:
        """Note a process that torchrun killed because of another one."""
        self._forced.add(int(match["pid"]))

    @wants(r"^\s*Exit Code:\s+(?P<code>\d+)\s*$")
    def on_pod_state(self, line: FoundLine, match: Match) -> None:
        """Note a container that ended, in the output of ``kubectl describe``."""
        code = int(match["code"])
        if code == 0:
            return
        quote, pod = line.text.strip(), None
        for before in line.preceding(300):
            if (reason := value_after(before, "Reason")) and quote == line.text.strip():
                quote = f"Reason: {reason}, {quote}"
            if before.startswith("Name:"):
                pod = value_after(before, "Name")
                break
        self._add(line, Who(label=pod, host=pod), code, quote=quote)

    @wants(r"^(?P<pod>[a-z0-9][\w.-]+)\s+\d+/\d+\s+(?P<what>OOMKilled|Error|Evicted|NodeLost)\b")
    def on_pod_row(self, line: FoundLine, match: Match) -> None:
        """Note a pod that ended, in the output of ``kubectl get pods``."""
        pod = match["pod"]
        self._add(line, Who(label=pod, host=pod), code_of(match["what"]))

    def facts(self) -> Iterator[Fact]:
        """Yield each process that ended once, and whom the launcher takes for the root cause."""
        for row in self._distinct():
            who = self._rank_of(row)
            others = len(self._killed) > 1 and row.source in self._killed
            others = others or row.who.pid in self._forced or row.source in self._killed_behind
            others = others or self._outlived_grace(row)
            at_the_limit = self._at_the_limit and row.source in self._tasks
            others = others or (at_the_limit and row.signal == signal.SIGKILL)
            yield replace(row, who=who, killed_with_others=others)
            if who.pid is not None and who.rank is not None and who.trust > Trust.INFERRED:
                process = Who(pid=who.pid, host=who.host)
                yield ProcessRank(rank=who.rank, who=process, source=row.source)
        for row in self._roots:
            if row.who.rank is not None:
                yield RootCause(who=row.who, source=row.source)

    def _outlived_grace(self, row: Exit) -> bool:
        """Return whether a process was killed so long after another had failed in the same list.

        A launcher asks the others to end, and uses force on those that have not after its grace.
        """
        return (
            row.signal == signal.SIGKILL
            and row.time is not None
            and any(
                GRACE <= row.time - other.time <= 2 * GRACE
                for other in self._rows
                if other.time is not None and other.exitcode
            )
        )

    def _distinct(self) -> Iterable[Exit]:
        """Leave out a pid's second report; the one that tells a rank is kept."""
        by_pid: dict[int, Exit] = {}
        for row in self._rows:
            known = by_pid.get(row.who.pid) if row.who.pid else None
            if row.who.pid and (known is None or known.who.trust < row.who.trust):
                by_pid[row.who.pid] = row
        return [row for row in self._rows if not row.who.pid or by_pid[row.who.pid] is row]

    def _rank_of(self, row: Exit) -> Who:
        who = row.who
        if row.source in self._tasks and self._file.tasks_are_nodes:
            return Who(host=who.host, label=f"task {who.rank}")
        if who.rank is None and who.local_rank is not None:
            resolved = self._file.resolve(who)
            if resolved.rank is None and self._file.one_host is not False:
                return replace(who, rank=who.local_rank, trust=Trust.INFERRED)
            return resolved
        return who
