"""One look at all processes of a job: /proc and a stack dump of each.

py-spy pauses a process for the milliseconds of a dump. What is stopped, traced or in
uninterruptible sleep is read without pausing it: a tracer would wait for it, perhaps for ever,
and hold its other threads while it waits. So is what is blocked in a write to a pipe or socket:
a pause would end that write early (signal(7)), and who does not look at what was written would
lose the rest.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable, Iterator

from whyhang.analyzer.model import (
    NO_INTERPRETER,
    Claim,
    Gap,
    LockWait,
    Process,
    Record,
    Role,
    Source,
    ThreadState,
    replace,
)
from whyhang.collectors.live import locks, release
from whyhang.collectors.live.descriptors import Sockets, positions
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Member
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.process import describe, observe, who
from whyhang.collectors.live.programs import Command, Outcome, Plan, run_all
from whyhang.collectors.stacks import pyspy

STOPPED = frozenset({"T", "t"})
ENDED = frozenset({"Z", "X", "x"})

_WRITES = ("write(", "writev(", "sendto(", "sendmsg(")
_WRITING = frozenset(
    {"pipe_write", "anon_pipe_write", "sk_stream_wait_memory", "sock_alloc_send_pskb"}
)
"""Functions of the kernel in which a thread waits until a pipe or a socket has room."""

SETTLE = 0.08
"""Seconds that threads get to fall back into their waits before they are watched."""

_COST = "what it does is known from /proc only"
_NO_RIGHT = ("Permission", "Operation not permitted", "EPERM", "EACCES")


class Dump(Record):
    """The stacks of one process as py-spy printed them.

    ``peers``: cut down to its sends and receives, with the rank at the other end.
    """

    pid: int
    look: int
    taken_at: float
    data: bytes
    native: bool = False
    peers: bool = False


class Look(Plan):
    """Looks at members of a job once. After ``take`` the results stand in the fields."""

    def __init__(
        self, host: Host, hostname: str, number: int, *, limit: float, native: bool = False
    ) -> None:
        self.number = number
        self.native = native
        self.dumps: list[Dump] = []
        self.processes: dict[int, Process] = {}
        self.gaps: list[Gap] = []
        self.touched: list[str] = []
        self.claims: list[Claim] = []
        self._host = host
        self._proc: Proc = host.proc
        self._hostname = hostname
        self._limit = limit
        self.sockets = Sockets(host.proc)
        self._locks: dict[int, LockWait] = {}
        self._held: dict[int, tuple[str, ...]] = {}
        self._members: dict[int, Member] = {}
        self._known: dict[int, Process] = {}
        self._read: set[int] = set()
        self._quiet: set[int] = set()

    def take(
        self,
        members: Iterable[Member],
        known: dict[int, Process],
        read: set[int],
        beside: Iterable[object] = (),
        meanwhile: Iterator[object] | None = None,
    ) -> None:
        """Look at ``members``, of which those in ``read`` have Python stacks worth reading.

        ``known`` holds what was read of them in an earlier look, and is added to. The work in
        ``beside`` is done when this returns; for ``meanwhile`` see ``run_all``.
        """
        self._members = {member.pid: member for member in members}
        self._known = known
        self._read = read
        # The kernel lets all processors come to rest before it prints its locks: 15 ms.
        locking = threading.Thread(target=self._read_locks, daemon=True)
        locking.start()
        beside = itertools.chain(beside, map(self._describe, self._members))
        aside = itertools.chain(beside, meanwhile or ())
        turn = in_turn(list(self._members), self.number)
        outcomes = {o.command.pid: o for o in run_all(turn, self, meanwhile=aside)}
        again = [pid for pid, outcome in outcomes.items() if self._try_again(outcome)]
        outcomes |= {o.command.pid: o for o in run_all(again, self)}
        for _ in beside:  # what there was no time for
            pass
        locking.join()
        self.processes = {pid: self._whole(pid) for pid in self.processes}
        for outcome in outcomes.values():
            self._keep(outcome)
        self._tell_touched(outcomes.values())

    def _read_locks(self) -> None:
        self._locks = locks.waits(self._host)
        self._held = locks.held(self._host, self._members)

    def begin(self, pid: int) -> Command | None:
        """Read what /proc tells of a process, and decide how to take its stacks."""
        member = self._members[pid]
        bare = Process(who=who(member, self._hostname), source=Source(file=f"/proc/{pid}"))
        process = observe(self._proc, bare, self.sockets, look=self.number, now=time.time())
        if process is None:
            self._gap(member, "it ended before this look", "its log says how it ended")
            return None
        self.processes[pid] = replace(process, before=self._proc.counters(pid))
        if process.state in ENDED:
            self._gap(
                member,
                "it has ended and its parent has not collected it (a zombie)",
                f"look at its parent, process {member.ppid}, and at its log",
            )
            return None
        if pid not in self._read:
            return None
        quiet = self._cannot_be_paused(process)
        if quiet:
            self._quiet.add(pid)
        arguments = pyspy.command(pid, native=self.native, nonblocking=quiet)
        return Command(pid=pid, arguments=tuple(arguments), limit=self._limit)

    def _describe(self, pid: int) -> Process:
        """Read what stays the same from look to look, which need not keep the stacks waiting."""
        if pid not in self._known:
            member = self._members[pid]
            self._known[pid] = describe(self._host, member, self._hostname, self.sockets)
        return self._known[pid]

    def _whole(self, pid: int) -> Process:
        """Join what stays the same of a process with what this look saw of it."""
        now = self.processes[pid]
        return replace(
            self._describe(pid),
            look=now.look,
            taken_at=now.taken_at,
            state=now.state,
            wchan=now.wchan,
            thread_count=now.thread_count,
            threads=now.threads,
            tracer_pid=now.tracer_pid,
            lock=locks.with_path(self._locks.get(pid), _main_syscall(now)),
            holds=self._held.get(pid, ()),
            positions=positions(self._proc, pid) if self._members[pid].role is Role.RANK else {},
            before=now.before,
            after=now.after,
        )

    def after(self, pid: int) -> None:
        """Read the counters of a process right after its dump."""
        self.processes[pid] = replace(self.processes[pid], after=self._proc.counters(pid))

    def settle(self) -> None:
        """Read the counters once more, when the threads that were paused are at rest again.

        A thread that py-spy lets go has to run a moment to fall back into its wait, which on a
        busy machine may be after the first reading, and would look like movement.
        """
        time.sleep(SETTLE)
        for pid, process in self.processes.items():
            if process.after is not None:
                self.after(pid)

    def killed(self, pid: int) -> None:
        """Let a process go whose tracer had to be killed."""
        self.let_go(pid)
        self.after(pid)

    def was_quiet(self, pid: int) -> bool:
        """Tell whether the stacks of a process were read without pausing it."""
        return pid in self._quiet

    def let_go(self, pid: int) -> None:
        """Continue a process that its killed tracer left stopped; not one that was stopped."""
        if pid not in self._quiet and release.let_go(self._proc, pid):
            self.touched.append(
                f"sent SIGCONT to process {pid}, because py-spy was cut off while pausing it"
            )

    def _cannot_be_paused(self, process: Process) -> bool:
        states = {process.state, *(thread.state for thread in process.threads)}
        if states & STOPPED:
            return True
        if self._is_writing(process):
            return True
        if "D" not in states or not self._stays_asleep(process.who.pid or 0):
            return False
        member = self._members[process.who.pid or 0]
        asleep = next((t for t in process.threads if t.state == "D"), None)
        where = f" in {asleep.wchan}" if asleep is not None and asleep.wchan else ""
        self._gap(
            member,
            f"a thread is in uninterruptible sleep (state D{where}), so they were read without "
            "pausing it and may be inexact",
            "look at the storage, network or driver it waits for: dmesg, and as root "
            f"/proc/{member.pid}/stack",
            cost="",
        )
        return True

    def _is_writing(self, process: Process) -> bool:
        """Tell a process that is blocked in a write, now and a moment later.

        Of another thread than the main one only where no thread runs: what runs cannot be read
        well without a pause.
        """
        if not _writes(process.threads):
            return False
        pid = process.who.pid or 0
        call = self._proc.bytes_of(f"{pid}/syscall")
        time.sleep(0.02)
        now = self._proc.threads(pid)
        same = call == self._proc.bytes_of(f"{pid}/syscall")
        main = process.threads[0].syscall if same else None
        if not now or not _writes((replace(now[0], syscall=main), *now[1:])):
            return False
        self.touched.append(
            f"read the stacks of process {process.who.pid} without pausing it: it is blocked in a "
            "write that a pause would cut short"
        )
        return True

    def _stays_asleep(self, pid: int) -> bool:
        """Tell a thread that hangs in the kernel from one that is reading from a disk."""
        for _ in range(2):
            time.sleep(0.02)
            states = {t.state for t in self._proc.threads(pid)}
            if "D" not in states:
                return False
        return True

    def _try_again(self, outcome: Outcome) -> bool:
        """Tell whether a dump failed for a reason that may have passed, or that is seen now."""
        if outcome.code == 0 or outcome.timed_out:
            return False
        stat = self._proc.stat(outcome.command.pid)
        alive = stat is not None and stat.state not in ENDED
        return alive and not any(mark in outcome.errors for mark in _NO_RIGHT)

    def _keep(self, outcome: Outcome) -> None:
        member = self._members[outcome.command.pid]
        if outcome.code == 0 and outcome.output.strip():
            self.dumps.append(
                Dump(
                    pid=member.pid,
                    look=self.number,
                    taken_at=outcome.began,
                    data=outcome.output,
                    native=self.native,
                )
            )
        elif outcome.timed_out:
            self._gap(
                member,
                f"py-spy did not come back within {outcome.command.limit:g} s",
                "give it more with --timeout, or look with gdb -p",
            )
        else:
            stat = self._proc.stat(member.pid)
            if stat is None or stat.state in ENDED:
                self._gap(member, "it ended while py-spy looked at it", "its log says how it ended")
            else:
                self._gap(member, *pyspy.explain_failure(outcome.errors))
                if pyspy.lacks_interpreter(outcome.errors):
                    self._claim_no_interpreter(member)

    def _gap(self, member: Member, why: str, remedy: str, cost: str = _COST) -> None:
        about = replace(who(member, self._hostname), trust=member.trust)
        rank = f"rank {member.rank}, " if member.rank is not None else ""
        self.gaps.append(
            Gap(
                what=f"stacks of {rank}process {member.pid}",
                why=why,
                cost=cost,
                remedy=remedy,
                who=about,
            )
        )

    def _claim_no_interpreter(self, member: Member) -> None:
        said = "py-spy finds no Python interpreter in the process"
        about = replace(who(member, self._hostname), trust=member.trust)
        source = Source(file="claims.json")
        self.claims.append(Claim(about=NO_INTERPRETER, value=said, who=about, source=source))

    def _tell_touched(self, outcomes: Iterable[Outcome]) -> None:
        paused = [o for o in outcomes if o.code == 0 and "--nonblocking" not in o.command.arguments]
        if paused:
            how = "py-spy dump --native" if self.native else "py-spy dump"
            longest = max(outcome.seconds for outcome in paused)
            self.touched.append(
                f"{how} paused {len(paused)} processes for a part of at most {longest:.3f} s each"
            )


def in_turn(pids: list[int], look: int) -> list[int]:
    """Let each look begin with another process.

    Whoever is paused first is late for its step, and the others are then seen to wait for it.
    """
    first = look % max(1, len(pids))
    return [*pids[first:], *pids[:first]]


def _writes(threads: tuple[ThreadState, ...]) -> bool:
    """Tell whether a thread waits until it may write on."""
    if not threads:
        return False
    if threads[0].state == "S" and (threads[0].syscall or "").startswith(_WRITES):
        return True
    at_rest = all(thread.state != "R" for thread in threads)
    return at_rest and any(thread.wchan in _WRITING for thread in threads)


def _main_syscall(process: Process) -> str | None:
    return process.threads[0].syscall if process.threads else None


def worth_reading(members: Iterable[Member], most_others: int = 8) -> set[int]:
    """Choose the processes whose Python stacks are read: ranks, their workers, launchers.

    Of other Python programs below a rank, the first few are read as well: a checkpoint may be
    written in one. Pools of compile workers are not; they are many and wait for their rank.
    """
    chosen: set[int] = set()
    others: dict[int | None, int] = {}
    for member in members:
        if member.role is Role.OTHER and member.python:
            others[member.owner] = others.get(member.owner, 0) + 1
            if others[member.owner] <= most_others:
                chosen.add(member.pid)
        elif member.role is Role.RANK or (
            member.python and member.role in {Role.DATALOADER_WORKER, Role.LAUNCHER}
        ):
            chosen.add(member.pid)
    return chosen
