"""What /proc tells of one process, and that no state of it stops the reading."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fake_proc import FakeProc

from whyhang.analyzer.facts import (
    NO_LIMIT,
    Process,
    Role,
    Source,
    StackDump,
    Thread,
    ThreadState,
    Trust,
    Who,
)
from whyhang.analyzer.job.identify import identify
from whyhang.collectors.live.job.environment import environment, job_key, rank_of, split_zeros
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.open_files import fold, messages
from whyhang.collectors.live.pausing import obstacle
from whyhang.collectors.live.proc import Proc, parse_stat, parse_status
from whyhang.collectors.live.process import describe, frozen, observe
from whyhang.collectors.live.sockets import Sockets, socket_line
from whyhang.collectors.live.syscalls import parse_syscall

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


def test_stat_line_with_brackets_and_blanks_in_the_name() -> None:
    """The name of a process may hold anything, and the fields after it are still found."""
    line = b"12 (a ) S (b) T 3 1 9 0 -1 4194560 1 0 0 0 102 65 0 0 20 0 6 0 91048 988807168 0\n"
    stat = parse_stat(line)
    assert stat is not None
    assert (stat.pid, stat.comm, stat.state, stat.ppid) == (12, "a ) S (b", "T", 3)
    assert (stat.session, stat.cpu_ticks, stat.started) == (9, 167, 91048)
    assert not stat.kernel


@pytest.mark.parametrize("data", [b"", b"12", b"12 (x", b"12 (x) S 1", b"\xff\xfe (x) S a b c"])
def test_damaged_stat_line_is_no_process(data: bytes) -> None:
    """A stat line that is cut off or no text is taken for a process that is gone."""
    assert parse_stat(data) is None


def test_status_of_a_traced_process_with_a_stop_on_its_way() -> None:
    """Debugger, owner, voluntary switches and the pending SIGSTOP (bit 18) are read."""
    status = parse_status(
        b"TracerPid:\t77\nTgid:\t5\nSigPnd:\t0000000000040000\nShdPnd:\t0000000000000001\n"
        b"voluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t4\n"
    )
    assert (status.tracer, status.process, status.switches) == (77, 5, 8)
    assert status.pending == 0x40001
    assert parse_status(b"Name:\tpython\nNSpid:\t21915\t14\n").inner == 14
    assert parse_status(b"\xff\nUid\n") == parse_status(b"")


def test_environment_without_equals_signs_is_empty() -> None:
    """A program that rewrote its title leaves no environment, and no nonsense is read from it."""
    assert environment(b"\0" * 40) == {}
    assert environment(b"ray::Worker ray::Worker") == {}
    assert environment(b"A=1\0B=x=y\0=odd\0") == {"A": "1", "B": "x=y"}
    assert split_zeros(None) == ()


@pytest.mark.parametrize(
    ("environ", "by", "rank", "local", "world"),
    [
        (
            {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "x"},
            "torchrun", 3, 1, 4,
        ),
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0"}, "env", 3, None, 4),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
             "OMPI_COMM_WORLD_SIZE": "8", "PMIX_RANK": "2", "SLURM_PROCID": "0"},
            "openmpi", 2, 0, 8,
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "6", "MPI_LOCALRANKID": "2"}, "mpich", 5, 2, 6),
        (
            {"PMIX_RANK": "1", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "2",
             "SLURM_NTASKS": "64"},
            "pmix", 1, 1, 2,
        ),
        (
            {"SLURM_PROCID": "7", "SLURM_LOCALID": "3", "SLURM_NTASKS": "8"},
            "slurm", 7, 3, 8,
        ),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, "mvapich", 1, None, 2),
        ({"PALS_RANKID": "9", "PALS_LOCAL_RANKID": "1", "PMI_RANK": "9"}, "pals", 9, 1, None),
        (
            {"LOCAL_RANK": "2", "NODE_RANK": "0", "WORLD_SIZE": "4", "SLURM_PROCID": "0"},
            "lightning", 2, 2, 4,
        ),
        ({"LOCAL_RANK": "2", "NODE_RANK": "1", "WORLD_SIZE": "8"}, "lightning", None, 2, 8),
    ],
)  # fmt: skip
def test_rank_of_each_launcher(
    environ: dict[str, str], by: str, rank: int | None, local: int | None, world: int | None
) -> None:
    """The rank that torch.distributed would go by is read, whatever else the launcher sets."""
    place = rank_of(environ)
    assert place is not None
    assert (place.by, place.rank, place.local_rank, place.world_size) == (by, rank, local, world)


@pytest.mark.parametrize(
    "environ", [{}, {"RANK": ""}, {"RANK": "x"}, {"RANK": "-1"}, {"HOME": "/"}]
)
def test_environment_that_names_no_rank(environ: dict[str, str]) -> None:
    """No rank is made up."""
    assert rank_of(environ) is None


def test_run_id_alone_is_no_job() -> None:
    """Two torchrun jobs with the default run id "none" differ by their port."""
    keys = set()
    for port in ("1", "2"):
        environ = {
            "RANK": "0",
            "MASTER_ADDR": "h",
            "MASTER_PORT": port,
            "TORCHELASTIC_RUN_ID": "none",
        }
        place = rank_of(environ)
        assert place is not None
        keys.add(job_key(environ, place))
    assert len(keys) == 2


def test_sockets_are_named_by_their_ends() -> None:
    """Addresses of /proc/net/tcp, in host order and hexadecimal, become readable."""
    assert socket_line("tcp", "0100007F:7345", "0100007F:A6BC", "01") == (
        "tcp 127.0.0.1:29509 -> 127.0.0.1:42684 established"
    )
    assert socket_line("tcp", "00000000:7345", "00000000:0000", "0A") == "tcp 0.0.0.0:29509 listen"
    mapped = "0000000000000000FFFF00000100007F:0050"
    assert socket_line("tcp", mapped, mapped, "02") == ("tcp 127.0.0.1:80 -> 127.0.0.1:80 syn-sent")
    own = "00000000000000000000000001000000:0050"
    assert socket_line("tcp", own, "0" * 32 + ":0000", "0A") == "tcp [::1]:80 listen"


def test_what_gets_no_answer_is_told_of_a_socket() -> None:
    """Packets that were sent again, and connections that nobody accepts; no timer, no word."""
    ends = ("0200000A:1388", "0300000A:0FA0")
    line = "tcp 10.0.0.2:5000 -> 10.0.0.3:4000"
    again = ("000003F8:00000000", "01:00000A3C", "00000005")
    assert socket_line("tcp", *ends, "01", *again) == (
        f"{line} established, 1016 bytes sent again 5 times"
    )
    assert socket_line("tcp", *ends, "02", *again) == f"{line} syn-sent, sent again 5 times"
    once = ("000003F8:00000000", "01:00000A3C", "00000001")
    assert socket_line("tcp", *ends, "01", *once) == f"{line} established"
    kept_alive = ("00000000:00000000", "02:00000A3C", "00000005")
    assert socket_line("tcp", *ends, "01", *kept_alive) == f"{line} established"
    waiting = ("00000000:00000003", "00:00000000", "00000000")
    assert socket_line("tcp", ends[0], "00000000:0000", "0A", *waiting) == (
        "tcp 10.0.0.2:5000 listen, 3 not accepted"
    )


def test_who_listens_is_known_from_any_process_of_the_network(tmp_path: Path) -> None:
    """The tables are read once, but not remembered of a process that has just ended."""
    line = "  0: 0100007F:7345 00000000:0000 0A 0 0 0 0 0 {} 1\n"
    folder = tmp_path / "7" / "net"
    folder.mkdir(parents=True)
    (folder / "tcp").write_text(
        "head\n" + line.format(11) + line.replace(" 0A ", " 01 ").format(12)
    )
    (folder / "tcp6").write_text("head\n" + line.replace("0100007F", "0" * 32).format(13))
    sockets = Sockets(Proc(str(tmp_path)))

    assert sockets.listening(5, 29509) == {}
    assert sockets.listening(7, 29509) == {"11": "127.0.0.1:29509", "13": "[::]:29509"}
    assert sockets.listening(7, 29510) == {}
    (folder / "tcp").write_text("head\n")
    assert sockets.listening(5, 29509).keys() == {"11", "13"}


def test_descriptors_are_folded_with_the_telling_ones_first() -> None:
    """Equal descriptors are counted; sockets and devices come before files, never all of them."""
    names = ["pipe", "pipe", "/data/a.bin", "tcp 1.1.1.1:1 listen", "/dev/nvidia0", "/dev/nvidia0"]
    assert fold(names) == ("tcp 1.1.1.1:1 listen", "/dev/nvidia0 x2", "/data/a.bin", "pipe x2")
    many = fold(f"/data/{number:03}" for number in range(500))
    assert len(many) == 64
    assert many[-1] == "and 437 more"


def test_system_call_with_its_descriptor() -> None:
    """A read of descriptor 5 is told from a wait that has none, on both machines."""
    for text, machine, name, descriptor in (
        ("0 0x5 0x7f 0x10 0x0 0x0 0x0 0x7ff 0x7f", "x86_64", "read", 5),
        ("63 0x5 0x7f 0x10 0x0 0x0 0x0 0x7ff 0x7f", "aarch64", "read", 5),
        ("202 0x55 0x189", "x86_64", "futex", None),
    ):
        call = parse_syscall(text, machine)
        assert (call.name, call.descriptor) == (name, descriptor)
    for text in ("running", "-1 0x7f 0x7f", "", "99999 0x1"):
        assert not parse_syscall(text, "x86_64").name


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("232 0x4 0x7f 0x10 0xffffffff 0x0 0x0 0x7ff 0x7f", NO_LIMIT),
        ("7 0x7f 0x1 0x1388 0x0 0x0 0x0 0x7ff 0x7f", 5.0),
        ("45 0x5 0x7f 0x10 0x0 0x0 0x0 0x7ff 0x7f", NO_LIMIT),
        ("23 0x5 0x7f 0x0 0x0 0x0 0x0 0x7ff 0x7f", NO_LIMIT),
        ("23 0x5 0x7f 0x0 0x0 0x7ffd 0x0 0x7ff 0x7f", None),
        ("202 0x55 0x189 0x0 0x0 0x0 0x0 0x7ff 0x7f", None),
        ("running", None),
    ],
)
def test_limit_of_a_wait_for_data(text: str, limit: float | None) -> None:
    """A poll ends after its milliseconds, a read when data has come; a lock is no such wait."""
    assert parse_syscall(text, "x86_64").limit == limit


def test_a_futex_that_processes_share_is_distinguished_from_one_of_a_process() -> None:
    """The bit FUTEX_PRIVATE_FLAG of the operation."""
    for text, shared in (
        ("202 0x7f04d03bd000 0x109 0x0 0x0 0x0 0x0 0x7ff 0x7f", True),
        ("202 0x55bb15b98c60 0x189 0x0 0x0 0x0 0x0 0x7ff 0x7f", False),
        ("0 0x5 0x109 0x0 0x0 0x0 0x0 0x7ff 0x7f", False),
    ):
        assert parse_syscall(text, "x86_64").shared is shared


def test_process_record_of_a_fake_rank(tmp_path: Path) -> None:
    """Environment, command line, threads and start time come out cut to what may leave."""
    fake = FakeProc(tmp_path)
    secret = {"RANK": 1, "AWS_SECRET_ACCESS_KEY": "hunter2", "NCCL_DEBUG": "INFO"}
    fake.add(50, 1, "python3 t.py --token hunter2", secret, threads={51: "pt_nccl_watchdg"})
    host = fake.host()
    member = JobProcess(pid=50, ppid=1, role=Role.RANK, rank=1)
    sockets = Sockets(host.proc)
    process = observe(host, describe(host, member, "h", sockets), sockets, look=2, now=5.0)
    assert process is not None
    assert process.environ == {"NCCL_DEBUG": "INFO", "RANK": "1"}
    assert process.command == "python3 t.py --token [redacted]"
    assert [(t.tid, t.name) for t in process.threads] == [(50, "python3"), (51, "pt_nccl_watchdg")]
    assert (process.state, process.wchan, process.look) == ("S", "futex_do_wait", 2)
    assert process.started_at == pytest.approx(1700000000.5, abs=0.01)
    assert process.descriptors == ()


def test_threads_of_a_container_have_the_ids_that_python_knows(tmp_path: Path) -> None:
    """py-spy gives those; the kernel's word on a thread is joined with its stack by them."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1})
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to("pid:[1]")
    (tmp_path / "50" / "ns" / "pid").symlink_to("pid:[2]")
    with (tmp_path / "50" / "task" / "50" / "status").open("a") as status:
        status.write("NSpid:\t50\t7\n")
    thread = fake.host().proc.threads(50)[0]
    assert (thread.tid, thread.inner) == (50, 7)

    who = Who(rank=1, pid=50, host="h", trust=Trust.ENVIRONMENT)
    source = Source(file="x")
    stack = StackDump(who=who, tool="py-spy", threads=(Thread(frames=(), tid=7),), source=source)
    process = Process(who=who, source=source, role=Role.RANK, threads=(thread,))
    assert identify([process, stack]).members[0].dumps[0].threads[0].tid == 50


def test_process_that_ended_meanwhile_is_none(tmp_path: Path) -> None:
    """Between the search and the look a process may go; that is no error."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1})
    host = fake.host()
    known = Process(who=_who(99), source=_source())
    assert observe(host, known, Sockets(host.proc), look=0, now=0.0) is None


@linux
def test_own_process_is_read_as_it_is() -> None:
    """On this machine, a sleeping child shows its state, its call and its open files."""
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os,sys; sys.stdout.write('x'); sys.stdout.flush(); os.read(0, 1)",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        time.sleep(0.05)
        host = Proc()
        stat = host.stat(child.pid)
        assert stat is not None
        assert stat.ppid == os.getpid()
        counters = host.counters(child.pid)
        assert counters is not None
        assert counters.switches > 0
        started = host.started_at(stat)
        assert started is not None
        assert abs(started - time.time()) < 60
        known = Process(who=_who(child.pid), source=_source())
        process = observe(Host(host), known, Sockets(host), look=0, now=0.0)
        assert process is not None
        assert process.state == "S"
        assert process.threads[0].syscall in {"read(0: pipe)", None}  # None: no right to see it
        child.kill()


@linux
def test_threads_and_the_process_of_a_thread() -> None:
    """Threads are listed with the main one first, and a thread id leads to its process."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        ids = Proc().thread_ids(os.getpid())
        assert ids[0] == os.getpid()
        assert thread.native_id in ids
        status = Proc().status(thread.native_id or 0)
        assert status is not None
        assert status.process == os.getpid()
    finally:
        stop.set()
        thread.join()


def _who(pid: int) -> Who:
    return Who(pid=pid)


def _source() -> Source:
    return Source(file="/proc")


@pytest.mark.parametrize(
    ("line", "mount", "file", "stopped", "running"),
    [
        (
            "0::/job",
            "30 1 0:26 / {folder} rw - cgroup2 cgroup2 rw",
            "cgroup.events",
            "populated 1\nfrozen 1\n",
            "populated 1\nfrozen 0\n",
        ),
        (
            "6:freezer:/job",
            "30 1 0:26 / {folder} rw - cgroup cgroup rw,freezer",
            "freezer.state",
            "FROZEN\n",
            "THAWED\n",
        ),
    ],
)
def test_a_frozen_control_group_is_seen(
    tmp_path: Path, line: str, mount: str, file: str, stopped: str, running: str
) -> None:
    """Both versions of control groups say in a file whether their processes may run."""
    group = tmp_path / "freezer" / "job"
    group.mkdir(parents=True)
    for pid in ("7", "self"):
        (tmp_path / "proc" / pid).mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(f"9:name=systemd:/\n{line}\n")
    table = mount.format(folder=group.parent)
    (tmp_path / "proc" / "self" / "mountinfo").write_text(f"{table}\n")
    proc = Proc(str(tmp_path / "proc"))

    (group / file).write_text(running)
    assert frozen(proc, 7) is None
    (group / file).write_text(stopped)
    assert frozen(proc, 7) == "/job"


def test_who_waits_for_a_server_of_fuse_is_not_paused(tmp_path: Path) -> None:
    """It sleeps as if it could be stopped, and a tracer that tries waits with it for ever."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py")
    waits, sleeps = (
        ThreadState(tid=50, name="python3", state="S", wchan=wchan)
        for wchan in ("request_wait_answer", "futex_do_wait")
    )
    who, source = Who(pid=50), Source(file="processes.look0.json")
    seen = (Process(who=who, source=source, state="S", threads=(each,)) for each in (waits, sleeps))

    rows = [obstacle(fake.host(), process) for process in seen]

    assert rows == ["asleep", None]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are x86-64's")
@pytest.mark.parametrize(
    ("wchan", "lies_on"),
    [
        ("wait_for_partner", "a fifo"),
        ("fifo_pipe_write", "a fifo"),
        ("nfs_wait_bit_killable", "nfs4 from server:/data"),
    ],
)
def test_a_file_is_recognized_as_a_fifo(tmp_path: Path, wchan: str, lies_on: str) -> None:
    """What waits for the other end of a named pipe has no use for the file system below it."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1})
    place = tmp_path / "50"
    (place / "mountinfo").write_text("1 0 0:1 / /data rw - nfs4 server:/data rw\n")
    (place / "syscall").write_text("257 0xffffff9c 0x0 0x80000 0x0 0x0 0x0 0x7ffd 0x7f4c\n")
    (place / "mem").write_bytes(b"/data/token\0")
    for where in (place, place / "task" / "50"):
        (where / "wchan").write_text(wchan)
    host = fake.host()
    sockets = Sockets(host.proc)
    member = describe(host, JobProcess(pid=50, ppid=1, role=Role.RANK, rank=1), "h", sockets)
    process = observe(host, member, sockets, look=0, now=5.0)

    assert process is not None
    assert (process.threads[0].file, process.threads[0].mount) == ("/data/token", lies_on)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are x86-64's")
@pytest.mark.parametrize(
    ("wchan", "file"), [("wait_for_partner", "/data/token"), ("futex_wait_queue", None)]
)
def test_the_file_of_another_thread_is_known_too(
    tmp_path: Path, wchan: str, file: str | None
) -> None:
    """A writer beside the main thread is asked for its call, unless it merely waits for a lock."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1}, threads={51: "writer"})
    place = tmp_path / "50" / "task" / "51"
    (place / "syscall").write_text("257 0xffffff9c 0x0 0x80000 0x0 0x0 0x0 0x7ffd 0x7f4c\n")
    (place / "wchan").write_text(wchan)
    (tmp_path / "50" / "mem").write_bytes(b"/data/token\0")
    host = fake.host()
    sockets = Sockets(host.proc)
    member = describe(host, JobProcess(pid=50, ppid=1, role=Role.RANK, rank=1), "h", sockets)
    process = observe(host, member, sockets, look=0, now=5.0)

    assert process is not None
    assert process.threads[1].file == file


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are x86-64's")
@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("230 0x1 0x1 0x0 0x0", True),
        ("230 0x1 0x0 0x0 0x0", False),  # for so long, not until then
        ("202 0x55d0 0x89 0x0 0x10", True),
        ("202 0x55d0 0x89 0x0 0x0", False),  # without a limit
        ("202 0x55d0 0x189 0x0 0x10", False),  # by the clock on the wall
    ],
)
def test_how_long_a_rank_sleeps_is_read_from_its_call(
    tmp_path: Path, call: str, *, known: bool
) -> None:
    """The end of a sleep on the monotonic clock lies in the memory of the process."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1})
    place = tmp_path / "50"
    (place / "syscall").write_text(f"{call} 0x0 0x0 0x7ffd 0x7f4c\n")
    (place / "mem").write_bytes(struct.pack("qq", int(time.monotonic()) + 100, 0) * 2)
    host = fake.host()
    sockets = Sockets(host.proc)
    member = describe(host, JobProcess(pid=50, ppid=1, role=Role.RANK, rank=1), "h", sockets)
    process = observe(host, member, sockets, look=0, now=5.0)

    assert process is not None
    left = process.threads[0].sleeps_for
    assert (left is not None and 90 < left <= 100) if known else left is None


def test_messages_between_ranks_change_the_segments_that_they_map(tmp_path: Path) -> None:
    """Only what was ever written of a segment is read; other files that are mapped are not."""
    fake = FakeProc(tmp_path)
    fake.add(50, 1, "python3 t.py", {"RANK": 1})
    fake.add(51, 1, "python3 t.py", {"RANK": 2})
    name = "/dev/shm/vader_segment.n1.0.1a.0"
    (tmp_path / "50" / "maps").write_text(
        f"7f0-7f1 rw-s 00000000 00:1b 7 {name}\n7f2-7f3 r-xp 00000000 00:1b 8 /usr/lib/libmpi.so\n"
    )
    folder = tmp_path / "container" / "dev" / "shm"
    folder.mkdir(parents=True)
    (tmp_path / "50" / "root").symlink_to(tmp_path / "container")
    segment = folder / "vader_segment.n1.0.1a.0"
    segment.write_bytes(b"first")
    os.truncate(segment, 1 << 24)
    host = fake.host()
    before, again = (messages(host, [50, 51]) for _ in range(2))
    with segment.open("r+b") as file:
        file.seek(1 << 16)
        file.write(b"second")

    assert before.keys() == {50}
    assert before == again != messages(host, [50, 51])
