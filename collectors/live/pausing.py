"""When a process must not be paused for its stacks, and how one goes on that was left stopped.

What is stopped, traced or in uninterruptible sleep is read without pausing it: a tracer would
wait for it, perhaps for ever, and hold its other threads while it waits. So is what is blocked
in a write to a pipe or socket: a pause would end that write early (signal(7)), and who does not
look at what was written would lose the rest.

Attaching with ptrace sends SIGSTOP to each thread. The kernel lets go of everything when the
tracer dies, but a SIGSTOP that was not yet taken in stays pending, and stops the process later,
for good (ptrace(2), "Attaching and detaching"). SIGCONT takes it back, also while it is pending.
"""

import os
import signal
import time
from typing import Literal, TypeAlias

from whyhang.analyzer.facts import SWITCHES_PER_PAUSE, Process, ThreadState, replace
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc, Wakes

WAIT = 0.05
"""Seconds in which a stop that is on its way shows."""

_STOPPED = frozenset({"T", "t"})
_SIGSTOP = 1 << (signal.SIGSTOP - 1)
_WRITES = {"write", "writev", "sendto", "sendmsg"}
_WRITING = frozenset(
    {"pipe_write", "anon_pipe_write", "sk_stream_wait_memory", "sock_alloc_send_pskb"}
)
"""Functions of the kernel in which a thread waits until a pipe or a socket has room."""


_DEAF = frozenset({"request_wait_answer"})
"""Functions that wait on for FUSE's server, past any tracer, once a stop has interrupted them."""

LONGEST_PAUSE = 250_000
"""Nanoseconds on a CPU that a pause costs the main thread at most; a step of a program costs more.

Measured on a busy machine: 10,000 to 90,000.
"""

PATIENCE = 3.0
"""Seconds after which whoever traces a process is taken for a debugger; native stacks take one."""

MOST_PAUSES = 20
"""Pauses between two looks beyond which what woke the threads is taken for the program."""


Obstacle: TypeAlias = Literal["stopped", "writing", "asleep"]
"""Why a process must not be paused."""


def in_turn(pids: list[int], number: int) -> list[int]:
    """Let each snapshot begin with another process.

    Whoever is paused first is late for its step, and the others are then seen to wait for it.
    """
    first = number % max(1, len(pids))
    return [*pids[first:], *pids[:first]]


def obstacle(host: Host, process: Process) -> Obstacle | None:
    """Return why a process that was just observed must be read without pausing it, if so."""
    states = {process.state, *(thread.state for thread in process.threads)}
    if states & _STOPPED or process.frozen is not None:
        return "stopped"
    if _is_writing(host, process):
        return "writing"
    if "D" in states and host.proc.asleep_in_kernel(process.who.pid or 0) is not None:
        return "asleep"
    if any(thread.wchan in _DEAF for thread in process.threads):
        return "asleep"
    return None


def wait_for_others(proc: Proc, pid: int, until: float) -> None:
    """Wait while something else traces a process, until a time of the monotonic clock.

    A second whyhang or a py-spy lets it go soon, and is none of what the job waits for.
    """
    while (status := proc.status(pid)) and status.tracer and time.monotonic() < until:
        time.sleep(0.01)


def by_others(since: Wakes, until: Wakes, main: int) -> int:
    """Return how often somebody else paused a process whose threads did nothing else in between.

    A tracer wakes each thread of a process equally often, a program hardly ever does. Where the
    main thread did more than be paused, this is 0: then it ran.
    """
    before = since.switches
    woke = {tid: n - before[tid] for tid, n in until.switches.items() if tid in before}
    of_main = woke.pop(main, 0)
    pauses, odd = divmod(of_main, SWITCHES_PER_PAUSE)
    alike = sum(times == of_main for times in woke.values())
    if odd or not 0 < pauses <= MOST_PAUSES or alike * 2 < max(1, len(woke)):
        return 0
    if since.ran is not None and until.ran is not None:
        return pauses if until.ran - since.ran <= LONGEST_PAUSE * pauses else 0
    return pauses


def with_wakes(
    threads: tuple[ThreadState, ...], since: Wakes, until: Wakes, pauses: int
) -> tuple[ThreadState, ...]:
    """Add how often each thread woke up between, but for so many pauses by somebody else."""
    known = since.switches.keys() & until.switches.keys()
    slept = {tid: until.switches[tid] - since.switches[tid] for tid in known}
    return tuple(
        replace(thread, woke=max(0, slept[thread.tid] - SWITCHES_PER_PAUSE * pauses))
        if thread.tid in slept
        else thread
        for thread in threads
    )


def _is_writing(host: Host, process: Process) -> bool:
    """Return whether a process is blocked in a write, now and a moment later.

    Of another thread than the main one only where no thread runs: what runs cannot be read
    well without a pause.
    """
    pid = process.who.pid or 0
    call = host.system_call(pid)
    in_write = call.name in _WRITES
    if not _waits_to_write(process.threads, in_write=in_write):
        return False
    time.sleep(0.02)
    in_write = in_write and call == host.system_call(pid)
    return _waits_to_write(host.proc.threads(pid), in_write=in_write)


def _waits_to_write(threads: tuple[ThreadState, ...], *, in_write: bool) -> bool:
    """Return whether a thread waits until it may write on; ``in_write``: the main one writes."""
    if in_write and threads and threads[0].state == "S":
        return True
    at_rest = all(thread.state != "R" for thread in threads)
    return at_rest and any(thread.wchan in _WRITING for thread in threads)


def let_go(proc: Proc, pid: int) -> bool:
    """Continue a process that is stopped or about to be. Only for one that was not before.

    Returns whether SIGCONT was sent.
    """
    until = time.monotonic() + WAIT
    while not _is_stopped(proc, pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    try:
        os.kill(pid, signal.SIGCONT)
    except OSError:  # it is gone, or not ours: then py-spy could not attach either
        return False
    return True


def _is_stopped(proc: Proc, pid: int) -> bool:
    for tid in proc.thread_ids(pid):
        stat, status = proc.stat(pid, tid), proc.status(pid, tid)
        if stat is not None and stat.state == "T":
            return True
        if status is not None and status.pending & _SIGSTOP:
            return True
    return False
