"""Let a process go that a killed tracer may have left stopped.

Attaching with ptrace sends SIGSTOP to each thread. The kernel lets go of everything when the
tracer dies, but a SIGSTOP that was not yet taken in stays pending, and stops the process later,
for good (ptrace(2), "Attaching and detaching"). SIGCONT takes it back, also while it is pending.
"""

from __future__ import annotations

import os
import signal
import time

from whyhang.collectors.live.proc import Proc

WAIT = 0.05
"""Seconds in which a stop that is on its way shows."""

_SIGSTOP = 1 << (signal.SIGSTOP - 1)


def let_go(proc: Proc, pid: int) -> bool:
    """Continue the process if it is stopped or about to be. Only for one that was not before.

    Gives whether SIGCONT was sent.
    """
    until = time.monotonic() + WAIT
    while True:
        if _stopped(proc, pid):
            try:
                os.kill(pid, signal.SIGCONT)
            except OSError:  # it is gone, or not ours: then py-spy could not attach either
                return False
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


def _stopped(proc: Proc, pid: int) -> bool:
    for tid in proc.thread_ids(pid):
        stat, status = proc.stat(pid, tid), proc.status(pid, tid)
        if stat is not None and stat.state == "T":
            return True
        if status is not None and status.pending & _SIGSTOP:
            return True
    return False
