"""Back traces of gdb, with and without Python's own."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stack_docs import dumps, functions

from whyhang.analyzer.facts import NOBODY, Gap, StackDump, Trust
from whyhang.analyzer.reading import Document
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read
from whyhang.collectors.stacks import core, gdb

READER = gdb.READER

APPLY_ALL = """\
[New LWP 4720]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
0x00007f2b in __GI___poll (fds=0x7f2b, nfds=1) at ../sysdeps/unix/sysv/linux/poll.c:29

Thread 2 (Thread 0x7f38d0 (LWP 4720) "pt_gloo_runloop"):
#0  __futex_wait (private=0) at ./nptl/futex-internal.c:57
#1  0x00007f38e0 in c10d::ProcessGroupGloo::runLoop(int) () from /lib/libtorch_cpu.so
#2  0x00007f38e1 in ?? () from /lib/libstdc++.so.6

Thread 1 (Thread 0x7f38f1 (LWP 4711) "python3"):
#0  0x00007f38f1 in __GI___poll (fds=0x7f2b, nfds=1) at ../sysdeps/unix/sysv/linux/poll.c:29
#1  0x00007f38e0 in c10d::Work::wait(std::chrono::duration<long>) () from /lib/libtorch_cpu.so
#2  0x00007f38f2 in method_vectorcall (func=0x7f, args=0x7f) at Objects/descrobject.c:364
#3  0x00007f38f2 in _PyEval_EvalFrameDefault (tstate=<optimized out>) at Python/ceval.c:4769
#4  Py_RunMain () at Modules/main.c:680
[Inferior 1 (process 4711) detached]
"""

PYTHON = """\

Thread 2 (Thread 0x7f38d0 (LWP 4720) "pt_gloo_runloop"):
Unable to locate python frame

Thread 1 (Thread 0x7f38f1 (LWP 4711) "python3"):
Traceback (most recent call first):
  <built-in method poll of select.poll object at remote 0x7f2b>
  File "/lib/python3.11/selectors.py", line 415, in select
    fd_event_list = self._selector.poll(timeout)
  File "/job/train.py", line 29, in <module>
    main()
"""

WHERE = """\
(gdb) where
#0  0x00002b9dc9f3e113 in poll () from /lib/libc.so.6
#1  0x00000000009b0768 in
ompi_coll_tuned_allreduce_intra ()
#2  0x00000000009a0785 in PMPI_Comm_dup ()
#3  0x00000000004c0dc4 in sub_init (id=..., build=...)
at sub_init.f90:62
(gdb) quit
"""


def test_native_threads() -> None:
    """Each thread keeps its kernel id and name; thread 1 is the main thread, its LWP the pid."""
    (dump,) = dumps(READER, APPLY_ALL, "rank2.txt")

    loop, main = dump.threads
    assert (dump.who.pid, dump.who.rank, dump.who.host) == (4711, 2, None)
    assert (loop.tid, loop.name, main.tid, main.name) == (
        4720,
        "pt_gloo_runloop",
        4711,
        "MainThread",
    )
    assert functions(loop.frames) == ["__futex_wait", "c10d::ProcessGroupGloo::runLoop", "??"]
    assert functions(main.frames) == ["__GI___poll", "c10d::Work::wait", "Py_RunMain"]
    assert str(main.frames[0]) == "__GI___poll (../sysdeps/unix/sysv/linux/poll.c:29)"
    assert main.frames[1].file == "/lib/libtorch_cpu.so"
    assert all(frame.native for frame in main.frames)


def test_python_and_native_frames_are_joined() -> None:
    """With bt and py-bt of one thread, the native frames end where the Python ones begin."""
    text = APPLY_ALL.replace("[Inferior 1 (process 4711) detached]\n", PYTHON)

    (dump,) = dumps(READER, text)

    assert functions(dump.threads[1].frames) == [
        "__GI___poll",
        "c10d::Work::wait",
        "select",
        "<module>",
    ]


def test_python_frames_alone() -> None:
    """``thread apply all py-bt`` gives the threads that have Python frames."""
    (dump,) = dumps(READER, PYTHON)

    (main,) = dump.threads
    assert (main.name, main.tid, functions(main.frames)) == (
        "MainThread",
        4711,
        ["select", "<module>"],
    )


def test_wrapped_lines() -> None:
    """Frames that a mail program wrapped are whole again."""
    (dump,) = dumps(READER, WHERE)

    frames = dump.threads[0].frames
    assert functions(frames) == [
        "poll",
        "ompi_coll_tuned_allreduce_intra",
        "PMPI_Comm_dup",
        "sub_init",
    ]
    assert (frames[3].file, frames[3].line) == ("sub_init.f90", 62)
    assert dump.main_only


def test_frames_that_name_python() -> None:
    """An interpreter frame that gdb prints with its Python frame becomes that frame."""
    text = (
        "#0  0x00007f in do_futex_wait () from /lib/libc.so.6\n"
        "#1  0x00007f in _PyEval_EvalFrameDefault (f=Frame 0x7f01, for file /job/data.py,"
        " line 12, in __getitem__ (self=<Data>, i=3), throwflag=0) at Python/ceval.c:3000\n"
    )

    (dump,) = dumps(READER, text)

    assert [str(frame) for frame in dump.threads[0].frames] == [
        "do_futex_wait (/lib/libc.so.6)",
        "__getitem__ (/job/data.py:12)",
    ]


def test_processes_one_after_the_other() -> None:
    """A loop over pids gives a dump for each, whether gdb says goodbye in between or not."""
    second = APPLY_ALL.replace("4711", "5711").replace("4720", "5720")
    quiet = "".join(
        line for line in (APPLY_ALL + second).splitlines(keepends=True) if "Inferior" not in line
    )

    for text in (APPLY_ALL + second, quiet):
        stacks = dumps(READER, text)
        assert [(dump.who.pid, len(dump.threads)) for dump in stacks] == [(4711, 2), (5711, 2)]


def test_where_gdb_has_stopped_is_no_stack_of_its_own() -> None:
    """Gdb shows the innermost frame of a core file on opening it, and again in the whole stack."""
    whole = "#0  0x00007f3a in poll () from /lib/libc.so.6\n#1  0x000055d1 in main ()\n"
    innermost = whole.splitlines(keepends=True)[0]

    for text, stacks in (
        (f"{innermost}(gdb) where\n{whole}", [2]),
        (f"{innermost}(gdb) where\n{whole.replace('poll', 'read')}", [1, 2]),
    ):
        assert [len(dump.threads[0].frames) for dump in dumps(READER, text)] == stacks


def test_greetings_and_quotes() -> None:
    """The greeting of gdb names no host; a trace quoted in a thread is read like the original."""
    greeting = (
        "Find the GDB manual and other documentation resources online at:\n"
        "    <http://www.gnu.org/software/gdb/documentation/>.\nAttaching to process 4711\n"
    )
    quoted = "".join(f"> {line}\n" for line in (greeting + WHERE).splitlines())

    (dump,) = dumps(READER, quoted)

    assert (dump.who.pid, dump.who.host) == (4711, None)
    assert functions(dump.threads[0].frames)[-1] == "sub_init"


def test_the_master() -> None:
    """The one process in a file called master is rank 0, by inference; of two none is."""
    (dump,) = dumps(READER, WHERE, "gdb-master.txt")
    second = APPLY_ALL.replace("4711", "5711").replace("4720", "5720")

    assert (dump.who.rank, dump.who.trust, dump.who.label) == (0, Trust.INFERRED, "master")
    assert [d.who.rank for d in dumps(READER, APPLY_ALL + second, "master.txt")] == [None, None]


def test_waiting_for_the_gil() -> None:
    """py-bt says which thread waits for the GIL."""
    text = PYTHON.replace("  <built-in method poll", "  Waiting for the GIL\n  <built-in poll")

    (dump,) = dumps(READER, text)

    assert dump.threads[0].holds_gil is False


@pytest.mark.parametrize(
    "command", ["--- gdb -batch -p {} -ex bt", "[op@n3 ~]$ pstack {}", "$ eu-stack -p {}"]
)
def test_the_command_above_a_backtrace_tells_the_process(command: str) -> None:
    """Commands that print the stacks of one process name it."""
    stack = "#0  0x00007f2b in poll () from /lib64/libc.so.6\n#1  0x0000004 in main () at a.c:7\n"
    text = "".join(f"{command.format(pid)}\n{stack}" for pid in (4711, 4713))

    assert [dump.who.pid for dump in dumps(READER, text)] == [4711, 4713]


def test_headings_between_bare_backtraces() -> None:
    """A blank line ends a frame, so that what stands above the next stack is a heading."""
    stack = "#0  0x00007f in poll () from /lib64/libc.so.6\n#1  0x00007f in PMPI_{} () at a.c:9\n"
    text = "".join(
        f"Rank {rank}:\n{stack.format(op)}\n" for rank, op in enumerate(("Bcast", "Barrier"))
    )
    stacks = dumps(READER, text, "gdb.txt")

    assert [dump.who.rank for dump in stacks] == [0, 1]
    assert [functions(dump.threads[0].frames)[-1] for dump in stacks] == [
        "PMPI_Bcast",
        "PMPI_Barrier",
    ]


CORE = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x04\x00" + bytes(200)


@pytest.mark.parametrize(
    ("local", "tool", "why"),
    [("rank1.core", None, "not installed"), (None, "gdb", "archive"), ("no", "true", "no stacks")],
)
def test_a_core_file_that_cannot_be_read_says_what_to_do(
    local: str | None, tool: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs gdb and a file on disk."""
    monkeypatch.setattr(shutil, "which", lambda _: tool)
    document = Document(
        path="rank1.core", head=CORE, size=len(CORE), open=io.BytesIO, who=NOBODY, local=local
    )

    assert core.READER.sniff(document)
    (gap,) = core.READER.read(document)

    assert isinstance(gap, Gap)
    assert why in gap.why
    assert "gdb -batch" in gap.remedy


@pytest.mark.live
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_a_core_file_is_read_through_gdb(tmp_path: Path) -> None:
    """The stacks are those of the process, under its pid, and the rank that the name tells."""
    text = "import time; print('up', flush=True); time.sleep(600)"
    path = tmp_path / "rank1.core"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        save = ["gdb", "-nx", "-batch", "-p", str(process.pid), "-ex", f"generate-core-file {path}"]
        subprocess.run(save, capture_output=True, check=True, timeout=60)
        process.kill()

    (dump,) = (fact for fact in read([path], readers=READERS) if isinstance(fact, StackDump))

    assert (dump.who.rank, dump.who.pid, dump.tool) == (1, process.pid, "gdb")
    assert "nanosleep" in dump.threads[0].frames[0].function


OUTERMOST_FIRST = """\
Process 0:
#3 main (argc=3, argv=0x7fff) at halo.c:44 (at 0x000000400dab)
#2 PMPI_Barrier () from /opt/mpi/lib/libmpi.so.0 (at 0x00002aaae45)
#1 opal_progress () from /opt/mpi/lib/libopen-pal.so.0 (at 0x00002aad1c)
#0 pthread_mutex_unlock () from /usr/lib64/libpthread.so.0 (at 0x00002af53)

Process 1:
#2 main (argc=3, argv=0x7fff) at halo.c:28 (at 0x000000400cf1)
#1 PMPI_Win_lock () from /opt/mpi/lib/libmpi.so.0 (at 0x00002aa68d)
#0 ucp_worker_progress (worker=0x2aaa) at src/ucp/core/ucp_worker.c:1426 (at 0x0c9ee2)
"""


def test_frames_listed_outermost_first() -> None:
    """Their numbers tell; the address stands behind."""
    first, second = dumps(READER, OUTERMOST_FIRST)

    assert functions(first.threads[0].frames)[0] == "pthread_mutex_unlock"
    assert functions(first.threads[0].frames)[-2:] == ["PMPI_Barrier", "main"]
    assert functions(second.threads[0].frames) == ["ucp_worker_progress", "PMPI_Win_lock", "main"]
    assert [dump.threads[0].frames[-1].line for dump in (first, second)] == [44, 28]
    assert [dump.who.label for dump in (first, second)] == ["process 0", "process 1"]


EU_STACK = """\
PID 18896 - process
TID 18896:
#0  0x00007f5c28aa3f16 __futex_abstimed_wait_common
#1  0x00007f5c28aa65d8 pthread_cond_wait@@GLIBC_2.3.2 - /usr/lib/libc.so.6
#2  0x00007f5c1836984b c10d::Work::wait(std::chrono::duration<long, std::ratio<1l, 1000l> >)
#3  0x00007f5c118d44a3
#4  0x000055dd35281081 _start
TID 18946:
#0  0x00007f5c28b26f36 epoll_wait
#1  0x00007f5c1a77d62d gloo::transport::tcp::Loop::run()
PID 18898 - process
TID 18898:
#0  0x00007f3eb8ced545 clock_nanosleep@GLIBC_2.2.5
#1  0x00007f3eb9115ada time_sleep
"""

LLDB = """\
(lldb) process attach --pid 18896
Process 18896 stopped
* thread #1, name = 'python', stop reason = signal SIGSTOP
    frame #0: 0x00007f5c28aa3f16 libc.so.6`__futex_abstimed_wait_common at futex-internal.c:57:12
  thread #2, name = 'gloo_tcp_loop', stop reason = signal SIGSTOP
    frame #0: 0x00007f5c28b26f36 libc.so.6`epoll_wait(epfd=6, timeout=10) at epoll_wait.c:30:10
Executable module set to "/usr/bin/python3.11".
(lldb) thread backtrace all
* thread #1, name = 'python', stop reason = signal SIGSTOP
  * frame #0: 0x00007f5c28aa3f16 libc.so.6`__futex_abstimed_wait_common at futex-internal.c:57:12
    frame #1: 0x00007f5c1836984b libtorch_cpu.so`c10d::Work::wait(std::chrono::duration<long>) + 91
    frame #2: 0x00007f5c28e50a40 libpython.so`_PyEval_Vector [inlined] frobnicate(x=3) at a.c:73:16
  thread #2, name = 'gloo_tcp_loop', stop reason = signal SIGSTOP
    frame #0: 0x00007f5c28b26f36 libc.so.6`epoll_wait(epfd=6, timeout=10) at epoll_wait.c:30:10
    frame #1: 0x00007f5c1a77d62d libtorch_cpu.so`gloo::transport::tcp::Loop::run() + 477
(lldb) quit
"""


def test_stacks_of_elfutils() -> None:
    """eu-stack heads threads by their ids, and processes by theirs."""
    first, second = dumps(READER, EU_STACK)
    assert (first.who.pid, second.who.pid) == (18896, 18898)
    assert [thread.name for thread in first.threads] == ["MainThread", None]
    assert functions(first.threads[0].frames)[1:] == [
        "pthread_cond_wait@@GLIBC_2.3.2",
        "c10d::Work::wait",
        "_start",
    ]
    assert first.threads[0].frames[1].file == "/usr/lib/libc.so.6"
    assert functions(second.threads[0].frames) == ["clock_nanosleep@GLIBC_2.2.5", "time_sleep"]


def test_stacks_of_lldb() -> None:
    """What lldb lists on attaching, one frame a thread, is no stack; the back traces are."""
    (dump,) = dumps(READER, LLDB)
    assert dump.who.pid == 18896
    main, loop = dump.threads
    assert (main.name, loop.name) == ("MainThread", "gloo_tcp_loop")
    assert functions(main.frames) == [
        "__futex_abstimed_wait_common",
        "c10d::Work::wait",
        "frobnicate",
    ]
    assert [(f.file, f.line) for f in main.frames] == [
        ("futex-internal.c", 57),
        ("libtorch_cpu.so", None),
        ("a.c", 73),
    ]
    assert functions(loop.frames) == ["epoll_wait", "gloo::transport::tcp::Loop::run"]


def test_a_stack_without_addresses_and_arguments() -> None:
    """Of what somebody shortened the functions are left; a lone number is no stack."""
    (dump,) = dumps(READER, "#0  __sched_yield\n#1  ncclLocalOpAppend\n#2  pncclAllGather\n")
    assert functions(dump.threads[0].frames)[-1] == "pncclAllGather"
    assert dumps(READER, "see\n#0  this\nand that\n") == []
