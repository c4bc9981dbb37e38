"""Where a thread stands, by its state, its kernel function and its line of source."""

from __future__ import annotations

import pytest
from place_docs import C10D, dump, place, process, says, thread

from whyhang.analyzer.stacks import Scope, WaitKind, place_of, undecided
from whyhang.signatures.frames import TABLE


@pytest.mark.parametrize(
    ("wchan", "kind", "scope"),
    [
        ("hrtimer_nanosleep", WaitKind.SLEEP, Scope.LOCAL),
        ("do_wait", WaitKind.SUBPROCESS, Scope.LOCAL),
        ("locks_lock_inode_wait", WaitKind.LOCK, Scope.LOCAL),
        ("rpc_wait_bit_killable", WaitKind.FILE, Scope.LOCAL),
        ("folio_wait_bit_common", WaitKind.FILE, Scope.LOCAL),
        ("autofs_wait", WaitKind.FILE, Scope.LOCAL),
        ("n_tty_read", WaitKind.INPUT, Scope.LOCAL),
        ("anon_pipe_read", WaitKind.POLL, Scope.LOCAL),
        ("futex_wait_queue_me", WaitKind.POLL, Scope.MAYBE),
        ("poll_schedule_timeout.constprop.0", WaitKind.POLL, Scope.MAYBE),
        ("inet_csk_accept", WaitKind.NETWORK, Scope.MAYBE),
        ("0", WaitKind.POLL, Scope.MAYBE),
        (None, WaitKind.POLL, Scope.MAYBE),
    ],
)
def test_kernel_speaks_where_no_frame_does(wchan: str | None, kind: WaitKind, scope: Scope) -> None:
    """The kernel's function tells a sleep from a file; what may be other ranks stays a maybe."""
    spot = place("f (train.py:3)", state="S", wchan=wchan)
    assert (spot.kind, spot.scope, spot.certain) == (kind, scope, False)
    assert undecided(spot)


@pytest.mark.parametrize(
    ("text", "certain"),
    [("time.sleep(30)", True), ("work.wait()", False), ("poll_forever(path)", False)],
)
def test_what_the_kernel_and_the_line_both_say_is_certain(text: str, certain: bool) -> None:
    """A Python without symbols shows no native frame that would say it a third time."""
    kernel = process("S", "hrtimer_nanosleep")
    spot = place_of(dump(thread("f (train.py:3)")), kernel, TABLE, says(text))
    assert (spot.kind, spot.certain) == (WaitKind.SLEEP, certain)


def test_running_is_work() -> None:
    """A thread on the CPU in the user's code waits for nothing."""
    spot = place("f (train.py:3)", state="R")
    assert (spot.kind, spot.scope) == (WaitKind.WORK, Scope.WORK)


def test_py_spys_guess_where_proc_has_no_state() -> None:
    """An archived dump has py-spy's idle and active only."""
    idle = place_of(dump(thread("f (train.py:3)", active=False)), None, TABLE)
    busy = place_of(dump(thread("f (train.py:3)", active=True)), None, TABLE)
    silent = place_of(dump(thread("f (train.py:3)")), None, TABLE)
    assert (idle.kind, idle.scope) == (WaitKind.POLL, Scope.MAYBE)
    assert (busy.kind, busy.scope) == (WaitKind.WORK, Scope.WORK)
    assert (silent.kind, silent.scope) == (WaitKind.WORK, Scope.MAYBE)


def test_running_without_the_gil_may_be_a_spinning_wait() -> None:
    """A Python loop holds the GIL; a wait for the GPU burns CPU without it."""
    loop = thread("f (train.py:3)", active=True, holds_gil=True)
    spin = thread("f (train.py:3)", active=True, holds_gil=False)
    assert place_of(dump(loop), process("R"), TABLE).scope is Scope.WORK
    assert place_of(dump(spin), process("R"), TABLE).scope is Scope.MAYBE


@pytest.mark.parametrize(
    ("text", "kind", "scope"),
    [
        ("work.wait()", WaitKind.COLLECTIVE, Scope.MAYBE),
        ("    send_req.wait()", WaitKind.P2P, Scope.MAYBE),
        ("store.get('key')", WaitKind.STORE, Scope.MAYBE),
        ("with self._lock:", WaitKind.LOCK, Scope.LOCAL),
        ("cache_lock.acquire()", WaitKind.LOCK, Scope.LOCAL),
        ("answer = input('go on? ')", WaitKind.INPUT, Scope.LOCAL),
        ("breakpoint()", WaitKind.DEBUGGER, Scope.LOCAL),
        ("total += loss.item()", WaitKind.CUDA_SYNC, Scope.MAYBE),
        ("data = conn.recv(4096)", WaitKind.NETWORK, Scope.LOCAL),
        ("comm.Allreduce(a, b)", WaitKind.MPI, Scope.MAYBE),
        ("x = model(x)", WaitKind.POLL, Scope.MAYBE),
    ],
)
def test_line_of_source_speaks_of_calls_into_c(text: str, kind: WaitKind, scope: Scope) -> None:
    """Where a futex could be anything, the line of source says which call it is."""
    stacks = dump(thread("f (train.py:3)"))
    spot = place_of(stacks, process("S", "futex_do_wait"), TABLE, says(text))
    assert (spot.kind, spot.scope, spot.certain) == (kind, scope, False)


def test_kernel_outranks_the_line() -> None:
    """A thread that sleeps in a child's wait is not in the lock that its line mentions."""
    stacks = dump(thread("f (train.py:3)"))
    spot = place_of(stacks, process("S", "do_wait"), TABLE, says("with lock: os.system(c)"))
    assert spot.kind is WaitKind.SUBPROCESS


def test_running_thread_does_not_sleep() -> None:
    """On the CPU only waits that spin are believed from a line of source."""
    stacks = dump(thread("f (train.py:3)"))
    assert place_of(stacks, process("R"), TABLE, says("time.sleep(1)")).kind is WaitKind.WORK
    spins = place_of(stacks, process("R"), TABLE, says("loss.item()"))
    assert spins.kind is WaitKind.CUDA_SYNC


def test_line_of_a_library_is_not_asked_for() -> None:
    """Only the user's innermost line is a hint; a library's line is not."""
    stacks = dump(thread("linear (torch/nn/functional.py:9)", "f (train.py:3)"))
    spot = place_of(stacks, process("S", "futex_do_wait"), TABLE, says("x.wait()"))
    assert spot.kind is WaitKind.POLL


def test_input_at_a_terminal() -> None:
    """wait_woken is a terminal or a socket; an open terminal makes it likely the former."""
    stacks = dump(thread("f (train.py:3)"))
    with_terminal = process("S", "wait_woken", descriptors=("/dev/pts/3 x3",))
    assert place_of(stacks, with_terminal, TABLE).kind is WaitKind.INPUT
    assert place_of(stacks, process("S", "wait_woken"), TABLE).kind is WaitKind.NETWORK


def test_uninterruptible_sleep() -> None:
    """State D without a kernel function is I/O."""
    assert place("f (train.py:3)", state="D").kind is WaitKind.FILE


def test_stopped_keeps_its_stack() -> None:
    """A stopped process is said to be stopped; where it stands is kept, guesses are not made."""
    spot = place(f"all_reduce ({C10D}:9)", "f (train.py:3)", state="T")
    assert (spot.stopped, spot.kind) == (True, WaitKind.COLLECTIVE)
    assert place("f (train.py:3)", state="t").stopped
