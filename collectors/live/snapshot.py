"""One snapshot of all processes of a job: what /proc tells and a stack dump of each.

py-spy pauses a process for the milliseconds of a dump, where it may be paused (``pausing.py``).
"""

import time
from collections.abc import Iterable, Iterator, Mapping

from whyhang.analyzer.facts import (
    Fact,
    NoInterpreter,
    Process,
    Record,
    Role,
    counted,
    replace,
)
from whyhang.analyzer.facts.processes import ENDED_STATES
from whyhang.analyzer.redact import redact
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.live import gdb, pausing
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.open_files import with_files
from whyhang.collectors.live.proc import Wakes
from whyhang.collectors.live.process import describe, observe
from whyhang.collectors.live.programs import Outcome, TimedCommand, run_all
from whyhang.collectors.live.sockets import Sockets
from whyhang.collectors.live.words import gap
from whyhang.collectors.stacks import pyspy

SETTLE = 0.08
"""Seconds that threads get to fall back into their waits before they are watched."""

_NO_RIGHT = ("Permission", "Operation not permitted", "EPERM", "EACCES")


class Dump(Record):
    """The stacks of one process as a tool printed them.

    That is "py-spy", "py-spy-native", "py-spy-peers" (cut down to its sends and receives, with the
    rank at the other end) or "gdb".
    """

    pid: int
    look: int
    taken_at: float
    data: bytes
    tool: str = "py-spy"


class Snapshot:
    """Members of a job at one moment. After ``take`` the results stand in the fields.

    ``known`` holds what stays the same of each process from snapshot to snapshot; it is added to.
    ``at_rest`` is what the snapshot before this one counted last, to tell pauses by others.
    """

    def __init__(
        self,
        host: Host,
        hostname: str,
        number: int,
        known: dict[int, Process],
        *,
        limit: float,
        native: bool = False,
        at_rest: Mapping[int, Wakes] | None = None,
    ) -> None:
        self.number = number
        self.native = native
        self.dumps: list[Dump] = []
        self.processes: dict[int, Process] = {}
        self.facts: list[Fact] = []
        self.touched: list[str] = []
        self.pauses: list[tuple[int, float]] = []
        self.sockets = Sockets(host.proc)
        self.at_rest: dict[int, Wakes] = {}
        self._at_rest_before = at_rest or {}
        self._host = host
        self._proc = host.proc
        self._hostname = hostname
        self._known = known
        self._limit = limit
        self._members: dict[int, JobProcess] = {}
        self._unpaused: set[int] = set()
        self._others_until = 0.0

    def take(self, members: Iterable[JobProcess], pids: set[int]) -> None:
        """Look at ``members``; those in ``pids`` have Python stacks worth reading."""
        self._members = {member.pid: member for member in members}
        self._others_until = time.monotonic() + pausing.PATIENCE
        turn = pausing.in_turn(list(self._members), self.number)
        outcomes = {o.command.pid: o for o in self._run(self._commands(turn, pids))}
        allowed = any(o.code == 0 for o in outcomes.values())
        again = [pid for pid, o in outcomes.items() if self._may_work_again(o, allowed=allowed)]
        outcomes |= {o.command.pid: o for o in self._run(self._commands(again, pids, plain=True))}
        ranks = {pid for pid in self.processes if self._members[pid].role is Role.RANK}
        self.processes = dict(with_files(self._host, self.processes, ranks, self.sockets))
        for outcome in outcomes.values():
            self._keep(outcome)
        self._note_pauses(outcomes.values())

    def dump_locals(self, pids: Iterable[int]) -> list[Outcome]:
        """Dump stacks with all variables of processes that ``take`` has seen, paused as there."""
        python = [pid for pid in pids if not gdb.is_for(self._host, pid)]
        return self._run(self._dump(pid, locals_=True) for pid in python)

    def settle(self) -> None:
        """Read the counters once more, when the threads that were paused are at rest again.

        A thread that py-spy lets go has to run a moment to fall back into its wait, which on a
        busy machine may be after the first reading, and would look like movement.
        """
        time.sleep(SETTLE)
        for pid, process in self.processes.items():
            if process.after is not None:
                self._count(pid)
                self.at_rest[pid] = self._proc.wakes(pid)

    def _run(self, commands: Iterable[TimedCommand]) -> list[Outcome]:
        return run_all(commands, ended=self._ended)

    def _commands(
        self, pids: Iterable[int], worth_reading: set[int], *, plain: bool = False
    ) -> Iterator[TimedCommand]:
        """Read what /proc tells of each process right before its stacks are taken.

        ``plain``: without native frames, which could not be had.
        """
        for pid in pids:
            if self._observe(pid) and pid in worth_reading:
                if self._must_not_pause(pid):
                    self._unpaused.add(pid)
                if not gdb.is_for(self._host, pid):
                    yield self._dump(pid, plain=plain)
                elif (arguments := gdb.command(pid)) is None:
                    self._gap(self._members[pid], "stacks-without-gdb")
                elif pid not in self._unpaused:  # it can only read what it pauses
                    yield TimedCommand(pid=pid, arguments=tuple(arguments), limit=self._limit)

    def _dump(self, pid: int, *, locals_: bool = False, plain: bool = False) -> TimedCommand:
        arguments = pyspy.command(
            pid,
            native=self.native and not locals_ and not plain,
            nonblocking=pid in self._unpaused,
            locals_=locals_,
        )
        return TimedCommand(pid=pid, arguments=tuple(arguments), limit=self._limit)

    def _observe(self, pid: int) -> bool:
        """Read what /proc tells of a process now; return whether it still runs."""
        member = self._members[pid]
        pausing.wait_for_others(self._proc, pid, self._others_until)
        if pid not in self._known:
            self._known[pid] = describe(self._host, member, self._hostname, self.sockets)
        process = observe(
            self._host, self._known[pid], self.sockets, look=self.number, now=time.time()
        )
        if process is None:
            self._gap(member, "stacks-ended", when="before this look")
            self._note_end(member, self._known[pid])
            return False
        pauses, threads = 0, process.threads
        if pid in self._at_rest_before:
            since, until = self._at_rest_before[pid], self._proc.wakes(pid)
            pauses = pausing.by_others(since, until, pid)
            threads = pausing.with_wakes(threads, since, until, pauses)
        process = replace(process, before=self._proc.counters(pid), pauses=pauses, threads=threads)
        self.processes[pid] = process
        if process.state in ENDED_STATES:
            self._gap(member, "stacks-of-zombie", parent=member.ppid)
        return process.state not in ENDED_STATES

    def _note_end(self, member: JobProcess, process: Process) -> None:
        """Record that a rank is gone, which others may wait for; helpers come and go.

        Of a spawned one only its first stack told that it is a rank.
        """
        if member.role is Role.RANK:
            gone = replace(process, look=self.number, taken_at=time.time(), state="X", threads=())
            self.processes[member.pid] = gone

    def _must_not_pause(self, pid: int) -> bool:
        process = self.processes[pid]
        obstacle = pausing.obstacle(self._host, process)
        if obstacle == "writing":
            self.touched.append(
                f"read the stacks of process {pid} without pausing it: it is blocked in a "
                "write that a pause would cut short"
            )
        elif obstacle == "asleep":
            asleep = next((t for t in process.threads if t.state == "D"), None)
            where = f" in {asleep.wchan}" if asleep is not None and asleep.wchan else ""
            known = asleep is not None and asleep.kernel
            unread = "" if known else f", and as root /proc/{pid}/stack"
            self._gap(self._members[pid], "stacks-inexact", where=where, unread=unread)
        return obstacle is not None

    def _ended(self, outcome: Outcome) -> None:
        """Read the counters right after a dump; let a process go whose tracer was killed."""
        pid = outcome.command.pid
        if pid not in self._unpaused and (outcome.code == 0 or outcome.timed_out):
            self.pauses.append((pid, outcome.seconds))
        if outcome.timed_out and pid not in self._unpaused and pausing.let_go(self._proc, pid):
            self.touched.append(
                f"sent SIGCONT to process {pid}, because py-spy was cut off while pausing it"
            )
        self._count(pid)

    def _count(self, pid: int) -> None:
        if pid in self.processes:
            self.processes[pid] = replace(self.processes[pid], after=self._proc.counters(pid))

    def _may_work_again(self, outcome: Outcome, *, allowed: bool) -> bool:
        """Return whether a dump failed for a reason that may have passed, or that is seen now.

        ``allowed``: others could be taken; who may not attach to one has met another tracer there.
        """
        failed = outcome.code != 0 and not outcome.timed_out
        no_right = not allowed and any(mark in outcome.errors for mark in _NO_RIGHT)
        return failed and not no_right and self._is_alive(outcome.command.pid)

    def _is_alive(self, pid: int) -> bool:
        stat = self._proc.stat(pid)
        return stat is not None and stat.state not in ENDED_STATES

    def _keep(self, outcome: Outcome) -> None:
        member, tool = self._members[outcome.command.pid], _tool(outcome)
        if outcome.code == 0 and outcome.output.strip():
            data, began = outcome.output, outcome.began
            dump = Dump(pid=member.pid, look=self.number, taken_at=began, data=data, tool=tool)
            self.dumps.append(dump)
            if self.native and tool == "py-spy" and member.pid not in self._unpaused:
                inside = self._proc.foreign(member.pid, "pid")
                remedy = "run whyhang inside the container" if inside else "look with gdb -p"
                self._gap(member, "stacks-not-native", remedy=remedy)
        elif outcome.timed_out:
            by, limit = tool.removesuffix("-native"), outcome.command.limit
            self._gap(member, "stacks-late", tool=by, limit=limit)
        elif not self._is_alive(member.pid):
            self._gap(member, "stacks-ended", when="while py-spy looked at it")
            self._note_end(member, self.processes[member.pid])
        elif tool == "gdb":
            last_line = (outcome.errors.strip().splitlines() or ["nothing"])[-1]
            said = redact(last_line)[:200]
            self._gap(member, "stacks-unread-by-gdb", said=said, pid=member.pid)
        else:
            why, remedy = pyspy.explain_failure(outcome.errors, lives=True)
            self._gap(member, "stacks-unread", why=why, remedy=remedy)
            if pyspy.lacks_interpreter(outcome.errors):
                about = member.who(self._hostname)
                self.facts.append(NoInterpreter(who=about, source=CLAIMS))

    def _gap(self, member: JobProcess, name: str, **parts: object) -> None:
        rank = f"rank {member.rank}, " if member.rank is not None else ""
        process, about = f"{rank}process {member.pid}", member.who(self._hostname)
        self.facts.append(gap(name, about, process=process, **parts))

    def _note_pauses(self, outcomes: Iterable[Outcome]) -> None:
        ended = [o for o in outcomes if o.code == 0 and o.command.pid not in self._unpaused]
        python = "py-spy dump --native" if self.native else "py-spy dump"
        for how, by_gdb in ((python, False), ("gdb", True)):
            seconds = [o.seconds for o in ended if (_tool(o) == "gdb") is by_gdb]
            if seconds:
                self.touched.append(
                    f"{how} paused {counted(len(seconds), 'process')} "
                    f"for a part of at most {max(seconds):.3f} s each"
                )


def _tool(outcome: Outcome) -> str:
    if "-batch" in outcome.command.arguments:
        return "gdb"
    return "py-spy-native" if "--native" in outcome.command.arguments else "py-spy"
