"""Looking at live processes: each has its limit, none is left stopped, the rest goes on."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Excerpt, Fact, Gap, Paused, Process, Role, WorldSize
from whyhang.collectors.files.bundle import Bundle, documents_of
from whyhang.collectors.files.own_files import OwnFiles
from whyhang.collectors.live import pausing, programs
from whyhang.collectors.live.capture import Capture, Named, spread
from whyhang.collectors.live.pausing import in_turn
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.stacks import pyspy

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="there are no live processes without /proc"
)

ONCE = Options(looks=1, limit=5.0)
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def children(count: int) -> str:
    """Return a program that starts so many processes and then sleeps beside them."""
    return (
        "import os, time\n"
        f"for _ in range({count}):\n"
        "    if os.fork() == 0: time.sleep(600)\n"
        "time.sleep(0.1); print('up', flush=True); time.sleep(600)"
    )


@contextlib.contextmanager
def program(text: str, *, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program that prints a line when it stands where it shall stand."""
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            time.sleep(0.05)
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def quiet(_: str) -> None:
    """Take progress and say nothing."""


def facts(bundle: Bundle) -> list[Fact]:
    """Read whyhang's own files of a bundle."""
    reader = OwnFiles()
    return [f for d in documents_of(bundle) if reader.sniff(d) for f in reader.read(d)]


def only(bundle: Bundle, kind: type[Fact]) -> list[Fact]:
    """Read the facts of one kind."""
    return [fact for fact in facts(bundle) if isinstance(fact, kind)]


def state_of(pid: int) -> str:
    """Give the state of a process now."""
    answer = Proc().stat(pid)
    return answer.state if answer is not None else "gone"


@pytest.fixture
def fake_pyspy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a script in the place of py-spy; ``$pid`` is the process that it is asked for."""

    def put(body: str) -> None:
        path = tmp_path / "py-spy"
        path.write_text(f"#!/bin/sh\nfor pid; do :; done\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(pyspy, "executable", lambda: str(path))

    return put


def test_two_looks_at_one_program() -> None:
    """Each look has the stack, what /proc tells, and counters around the dump."""
    with program(SLEEP, env={"RANK": "0", "WORLD_SIZE": "1", "SECRET": "hunter2"}) as child:
        bundle = Capture(child.pid, Options(looks=2, interval=0.05), quiet).take().bundle()
    looks = [fact for fact in only(bundle, Process) if fact.who.pid == child.pid]
    assert [process.look for process in looks] == [0, 1]
    for process in looks:
        assert (process.state, process.who.rank, process.role) == ("S", 0, Role.RANK)
        assert process.before is not None
        assert process.after is not None
        assert process.environ == {"RANK": "0", "WORLD_SIZE": "1"} | {
            name: value
            for name, value in process.environ.items()
            if name not in ("RANK", "WORLD_SIZE")
        }
    assert looks[0].after == looks[1].before  # it slept: only the dump itself counts as movement
    dumps = [entry for entry in bundle.manifest.files if entry.kind == "py-spy"]
    assert [(entry.look, entry.pid, entry.rank) for entry in dumps] == [
        (0, child.pid, 0),
        (1, child.pid, 0),
    ]
    assert all(b'"<module>"' in bundle.files[entry.path] for entry in dumps)
    assert b"hunter2" not in b"".join(bundle.files.values())
    assert any("py-spy dump paused" in line for line in bundle.manifest.touched)


def test_stopped_process_is_read_and_stays_stopped() -> None:
    """A process in state T is read without pausing it, and is neither continued nor lost."""
    with program(SLEEP) as child:
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(0.05)
        bundle = Capture(child.pid, ONCE, quiet).take().bundle()
        assert state_of(child.pid) == "T"
    assert [process.state for process in only(bundle, Process)] == ["T"]
    assert any(entry.kind == "py-spy" for entry in bundle.manifest.files)
    assert not any("paused" in line for line in bundle.manifest.touched)


def test_process_in_uninterruptible_sleep(tmp_path: Path) -> None:
    """State D is read without a tracer that would wait for ever, and is told as a gap."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # the parent of a vfork waits in state D until the child runs its program
    text = (
        "import os; print('up', flush=True); "
        f"os.posix_spawn('/bin/true', ['true'], {{}}, "
        f"file_actions=[(os.POSIX_SPAWN_OPEN, 0, {str(fifo)!r}, os.O_RDONLY, 0)])"
    )
    with program(text) as child:
        deadline = time.monotonic() + 5
        while state_of(child.pid) != "D" and time.monotonic() < deadline:
            time.sleep(0.02)
        if state_of(child.pid) != "D":
            pytest.skip("this system does not wait for a vfork in state D")
        began = time.monotonic()
        bundle = Capture(child.pid, ONCE, quiet).take().bundle()
        took = time.monotonic() - began
        os.close(os.open(fifo, os.O_WRONLY))
    assert took < ONCE.limit
    gaps = only(bundle, Gap)
    assert [gap.who.pid for gap in gaps if isinstance(gap, Gap)] == [child.pid]
    assert "uninterruptible sleep (state D" in str(gaps[0])
    assert any(entry.pid == child.pid and entry.kind == "py-spy" for entry in bundle.manifest.files)


def test_child_that_is_a_zombie_is_a_gap() -> None:
    """A dead child below the target is named with its parent; the target is read."""
    text = (
        "import os, time\n"
        "if os.fork() == 0: os._exit(1)\n"
        "time.sleep(0.2); print('up', flush=True); time.sleep(600)"
    )
    with program(text, env={"RANK": "0", "WORLD_SIZE": "1"}) as child:
        bundle = Capture(child.pid, ONCE, quiet).take().bundle()
    assert any(entry.pid == child.pid and entry.kind == "py-spy" for entry in bundle.manifest.files)


def test_process_that_ends_between_looks_is_a_gap() -> None:
    """The second look says that it is gone, also as a state of the rank; the first is kept."""

    def end() -> None:
        child.kill()
        child.wait()

    with program(SLEEP, env={"RANK": "0", "WORLD_SIZE": "1"}) as child:
        taking = Capture(child.pid, Options(looks=2, interval=0.3), quiet)
        threading.Timer(0.2, end).start()
        taking.take()
        bundle = taking.bundle()
    assert [(fact.look, fact.dead) for fact in only(bundle, Process)] == [(0, False), (1, True)]
    gaps = [str(gap) for gap in only(bundle, Gap)]
    assert len(gaps) == 1
    assert "ended" in gaps[0]
    assert len([entry for entry in bundle.manifest.files if entry.kind == "py-spy"]) == 1


def test_no_right_to_attach_is_reported_once(fake_pyspy: Callable[[str], None]) -> None:
    """What /proc tells is kept, and one gap says what would give the right, for all processes."""
    fake_pyspy(
        "echo 'Error: Permission Denied: Try running again with elevated permissions' >&2; exit 1"
    )
    with program(children(5), env={"RANK": "0", "WORLD_SIZE": "1"}) as child:
        bundle = Capture(child.pid, ONCE, quiet).take().bundle()
    gaps = only(bundle, Gap)
    assert len(gaps) == 1
    assert "stacks of 6 processes, of ranks 0 among them" in str(gaps[0])
    assert "ptrace_scope" in str(gaps[0])
    assert only(bundle, Paused) == []
    ranks = [p for p in only(bundle, Process) if isinstance(p, Process) and p.role is Role.RANK]
    assert [(p.who.rank, p.state) for p in ranks] == [(0, "S")]


def test_py_spy_that_hangs_is_cut_off(
    fake_pyspy: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each dump has its limit; the others go on meanwhile, and the hung one is a gap."""
    monkeypatch.setattr(programs, "SLOW", 0.1)
    fake_pyspy("exec sleep 600")
    with program(children(7), env={"RANK": "0", "WORLD_SIZE": "1"}) as child:
        began = time.monotonic()
        bundle = Capture(child.pid, Options(looks=1, limit=1.0), quiet).take().bundle()
        took = time.monotonic() - began
    # eight dumps of a second each: a hung one holds its place for a tenth of a second only
    assert took < 6
    assert "did not come back within 1 s" in str(only(bundle, Gap)[0])


def test_process_left_stopped_by_a_killed_tracer_goes_on(fake_pyspy: Callable[[str], None]) -> None:
    """If py-spy is cut off while it holds its target, the target is continued, and that is told."""
    fake_pyspy("kill -STOP $pid; exec sleep 600")
    with program(SLEEP) as child:
        bundle = Capture(child.pid, Options(looks=1, limit=0.3), quiet).take().bundle()
        time.sleep(0.05)
        assert state_of(child.pid) == "S"
    assert any(f"sent SIGCONT to process {child.pid}" in line for line in bundle.manifest.touched)


def test_release_leaves_a_running_process_alone() -> None:
    """Nothing is sent to a process that is not stopped."""
    with program(SLEEP) as child:
        assert not pausing.let_go(Proc(), child.pid)


def test_stop_that_is_still_pending_is_taken_back() -> None:
    """A SIGSTOP that has not been taken in yet is seen in the pending signals."""

    class Pending(Proc):
        def status(self, pid: int, tid: int | None = None):  # type: ignore[no-untyped-def]
            answer = super().status(pid, tid)
            return answer and type(answer)(
                process=0, tracer=0, switches=0, pending=1 << (signal.SIGSTOP - 1)
            )

    with program(SLEEP) as child:
        assert pausing.let_go(Pending(), child.pid)


@pytest.mark.parametrize("moment", [0.002, 0.01, 0.02, 0.05])
def test_ctrl_c_leaves_nothing_stopped_and_no_child(moment: float) -> None:
    """Whenever the person interrupts, the targets run on and no py-spy is left behind."""
    with program(children(5), env={"RANK": "0", "WORLD_SIZE": "1"}) as child:
        taking = Capture(child.pid, Options(looks=50, interval=0.0), quiet)
        timer = threading.Timer(moment, signal.raise_signal, [signal.SIGINT])
        signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
        with pytest.raises(KeyboardInterrupt):
            _started(timer, taking.take)
        mine = [s for s in Proc().table().values() if s.ppid == os.getpid()]
        assert [s.pid for s in mine if s.comm == "py-spy"] == []
        states = {member.pid: state_of(member.pid) for member in taking.job.members}
        assert not {"T", "t", "gone"} & set(states.values())


def _started(timer: threading.Timer, work: Callable[[], None]) -> None:
    timer.start()
    work()


def test_native_stacks_are_part_of_the_last_look() -> None:
    """They are taken on request, under names of their own, and say that they are native."""
    with program(SLEEP) as child:
        taking = Capture(child.pid, ONCE, quiet).take()
        taking.take_more("native_stacks", [Named(None, child.pid), Named(None, 1)])
        bundle = taking.bundle()
    native = [entry for entry in bundle.manifest.files if entry.kind == "py-spy-native"]
    assert [(entry.pid, entry.look) for entry in native] == [(child.pid, 0)]
    assert b"clock_nanosleep" in bundle.files[native[0].path]


def test_progress_is_reported_in_words() -> None:
    """A person who waits hears what is being done."""
    messages: list[str] = []
    with program(SLEEP) as child:
        Capture(child.pid, ONCE, messages.append).take()
    assert messages[0] == f"finding the job of process {child.pid}"
    assert messages[1] == "look 1: 1 rank"


def test_process_that_is_gone_is_an_error() -> None:
    """There is nothing to look at, and the person is told so."""
    with program(SLEEP) as child:
        pass
    with pytest.raises(TargetError):
        Capture(child.pid, ONCE, quiet).take()


def test_statements_and_excerpts_come_back_as_facts() -> None:
    """What capture concludes about the job is read back like everything else."""
    with program(SLEEP, env={"RANK": "1", "WORLD_SIZE": "4"}) as child:
        bundle = Capture(child.pid, ONCE, quiet).take().bundle()
    assert [fact.size for fact in only(bundle, WorldSize) if isinstance(fact, WorldSize)] == [4]
    assert only(bundle, Excerpt) == []  # its code is a string


def test_looks_are_not_in_step_with_the_job() -> None:
    """Each process is once the first to be paused, and no two further looks wait equally long."""
    assert {in_turn([7, 8, 9], look)[0] for look in range(3)} == {7, 8, 9}
    assert sorted(in_turn([7, 8, 9], 2)) == [7, 8, 9]
    assert spread(-1) == 1.0
    assert len({round(spread(further), 3) for further in range(8)}) == 8
    assert all(0.6 <= spread(further) <= 1.4 for further in range(8))
