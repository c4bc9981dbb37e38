"""Who is at the other end of the pipe or connection that a rank waits at."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from fake_proc import FakeProc
from small_jobs import ALL_REDUCE, process, report_of, still

from whyhang.analyzer.facts import Excerpt, Fact, OtherEnd, Process, Role, Who, replace
from whyhang.collectors.live.sockets import Sockets, other_end

READ = "0 0x3 0x7f 0x10 0x0 0x0 0x0 0x7ff 0x7f"
POLL = "7 0x0 0x1 0xdbba0 0x0 0x0 0x0 0x7ff 0x7f"
AGAIN = POLL.replace("7 ", "219 ", 1)  # restart_syscall
TCP = """sl
0: 0100007F:8000 0100007F:9000 01 0:0 0:0 0 0 0 {client} 1
1: 0100007F:9000 0100007F:8000 01 0:0 0:0 0 0 0 {server} 1
2: 0100007F:9000 0100007F:8001 01 0:0 0:0 0 0 0 99 1
"""

RECEIVES = """
recv_into (socket.py:718)
readinto (socket.py:706)
ask (features.py:12)
train (train.py:38)
<module> (train.py:60)
"""
KEY = "settings (train.py:30)\n<module> (train.py:60)"
KEY_LINE = Excerpt(file="train.py", first_line=30, lines=('return store.get("rate")',))


def _open(folder: Path, pid: int, number: int, link: str, flags: str) -> None:
    for name in ("fd", "fdinfo"):
        (folder / str(pid) / name).mkdir(exist_ok=True)
    (folder / str(pid) / "fd" / str(number)).symlink_to(link)
    (folder / str(pid) / "fdinfo" / str(number)).write_text(f"pos:\t0\nflags:\t{flags}\n")


def _at(folder: Path, call: str, wchan: str) -> FakeProc:
    """Make a rank, 7, in a call on its descriptor 3, and two other programs."""
    fake = FakeProc(folder)
    for pid, command in ((7, "python train.py"), (8, "python server.py"), (9, "tee out.log")):
        fake.add(pid, 1, command)
    (folder / "7" / "syscall").write_text(call)
    (folder / "7" / "mem").write_bytes(struct.pack("ihh", 3, 1, 0))
    (folder / "7" / "wchan").write_text(wchan)
    return fake


@pytest.mark.parametrize(("writers", "found"), [((8,), 8), ((8, 9), None), ((), None)])
def test_who_has_the_other_end_of_a_pipe(
    tmp_path: Path, writers: tuple[int, ...], found: int | None
) -> None:
    """Others that read from it are not awaited; of several that may write none is named."""
    fake = _at(tmp_path, READ, "pipe_read")
    for pid in (7, 8, 9):
        _open(tmp_path, pid, 3, "pipe:[55]", "0100000")
    for pid in (7, *writers):
        _open(tmp_path, pid, 4, "pipe:[55]", "0100001")
    host = fake.host()

    end = other_end(host, 7, Sockets(host.proc))

    assert (end.pid if end is not None else None) == found


@pytest.mark.parametrize(("wchan", "found"), [("fifo_pipe_write", 8), ("folio_wait_bit", None)])
def test_who_reads_from_a_pipe_with_a_name(tmp_path: Path, wchan: str, found: int | None) -> None:
    """Its path is in the table of open files; of a file on a disk nobody is the other end."""
    fake = _at(tmp_path, READ.replace("0 ", "1 ", 1), wchan)
    _open(tmp_path, 7, 3, "/run/checkpoint.stream", "0100001")
    _open(tmp_path, 8, 5, "/run/checkpoint.stream", "0100000")
    host = fake.host()

    end = other_end(host, 7, Sockets(host.proc))

    assert (end.pid if end is not None else None) == found


@pytest.mark.parametrize(
    ("call", "wchan"),
    [(READ, "sk_wait_data"), (POLL, "do_sys_poll"), (AGAIN, "poll_schedule_timeout.constprop.0")],
)
def test_who_has_the_other_end_of_a_connection(tmp_path: Path, call: str, wchan: str) -> None:
    """A wait with a limit polls; a dump of the stacks has it go on as another call."""
    fake = _at(tmp_path, call, wchan)
    _open(tmp_path, 7, 3, "socket:[70]", "02")
    _open(tmp_path, 8, 5, "socket:[80]", "02")
    (tmp_path / "7" / "net").mkdir()
    (tmp_path / "7" / "net" / "tcp").write_text(TCP.format(client=70, server=80))
    host = fake.host()

    end = other_end(host, 7, Sockets(host.proc))

    assert end == OtherEnd(pid=8, command="python server.py")


def test_a_sleep_is_at_no_end(tmp_path: Path) -> None:
    """What goes on under another number may be a nap."""
    fake = _at(tmp_path, AGAIN, "hrtimer_nanosleep")
    _open(tmp_path, 7, 3, "socket:[70]", "02")
    host = fake.host()

    assert other_end(host, 7, Sockets(host.proc)) is None


def _job(stack: str, end: OtherEnd) -> list[Fact]:
    return [
        replace(fact, other_end=end) if isinstance(fact, Process) and fact.who.rank == 2 else fact
        for fact in still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: stack})
    ]


def test_the_server_that_does_not_answer_is_named() -> None:
    """It can be looked at, as the rank that waits for it can."""
    finding = report_of(_job(RECEIVES, OtherEnd(pid=77, command="python server.py"))).findings[0]

    assert finding.culprit_ranks == (2,)
    assert "waits for a network peer (server.py, pid 77) at ask" in finding.title


def test_of_a_rank_that_waits_for_the_answer_of_another_neither_is_blamed() -> None:
    """One may not answer, or the other may have asked for what does not come."""
    pid = process(0).who.pid or 0
    finding = report_of(_job(RECEIVES, OtherEnd(pid=pid))).findings[0]

    assert finding.culprit_ranks is None
    assert f"waits for a network peer (rank 0, pid {pid}) at ask" in finding.title


def test_the_connection_to_the_store_is_no_wait_for_rank_zero() -> None:
    """Rank 0 serves the store, and another may have to set the key."""
    facts = [*_job(KEY, OtherEnd(pid=process(0).who.pid or 0)), KEY_LINE]
    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("store-key-never-set", (2,))
    assert "rank 0, pid" not in finding.title


@pytest.mark.parametrize("own", ["anon_pipe_write", "anon_pipe_read"])
@pytest.mark.parametrize(
    ("wchan", "ppid", "signature"),
    [
        ("anon_pipe_write", 1002, "child-pipes-both-full"),
        ("anon_pipe_read", 1002, "storage-io-blocked"),
        ("anon_pipe_write", 1, "storage-io-blocked"),
    ],
)
def test_a_child_that_is_not_read(own: str, wchan: str, ppid: int, signature: str) -> None:
    """It has filled a pipe of its own, as of its errors; parent and child wait for each other."""
    end = OtherEnd(pid=77, command="python tokenizer.py")
    writes = [
        replace(f, wchan=own) if isinstance(f, Process) and f.who.rank == 2 else f
        for f in _job("tokenize (text.py:18)\nmain (train.py:30)", end)
    ]
    fed = process(2, pid=77, look=1)
    child = replace(fed, who=Who(pid=77), role=Role.OTHER, ppid=ppid, wchan=wchan)

    does = "stdin.write(text)" if "write" in own else "stdout.readline()"
    line = Excerpt(file="text.py", first_line=18, lines=(f"    return child.{does}",))

    finding = report_of([*writes, child, line]).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, (2,))
