"""Locks on files: who waits, who holds, and what that makes of the job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fake_proc import FakeProc
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    ELSEWHERE,
    LOADER,
    WORKER,
    dump,
    process,
    report_of,
    still,
)

from whyhang.analyzer.facts import Fact, LockWait, Process, Role, Who, replace
from whyhang.collectors.live.open_files import FileLocks, positions

TABLE = b"""\
1: FLOCK  ADVISORY  WRITE 4711 fe:00:2162783 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:2162783 0 EOF
1: -> FLOCK  ADVISORY  WRITE 4713 fe:00:2162783 0 EOF
2: POSIX  ADVISORY  READ 900 fe:00:99 128 128
3: OFDLCK ADVISORY  WRITE -1 fe:00:77 0 EOF
3: -> OFDLCK ADVISORY  WRITE -1 fe:00:77 0 EOF
"""

LOCKED = """
locked (cache.py:21)
prepare (train.py:30)
<module> (train.py:60)
"""


def wanting(facts: list[Fact], rank: int, lock: LockWait) -> list[Fact]:
    """Let a rank wait in the kernel for a lock on a file."""
    return [
        replace(fact, lock=lock, wchan="locks_lock_inode_wait")
        if isinstance(fact, Process) and fact.who.rank == rank
        else fact
        for fact in facts
    ]


def locks(fake: FakeProc, table: bytes = TABLE) -> FileLocks:
    """Read a table of the kernel's."""
    (fake.folder / "locks").write_bytes(table)
    return FileLocks(fake.host())


def test_the_kernels_table_names_holder_and_waiters(tmp_path: Path) -> None:
    """Each waiting process is tied to the one that took the lock; locks of nobody are left out."""
    table = locks(FakeProc(tmp_path))
    awaited = {pid: table.awaited(pid) for pid in (4711, 4712, 4713, 900)}
    lock = LockWait(holder_pid=4711)

    assert awaited == {4711: None, 4712: lock, 4713: lock, 900: None}


@pytest.mark.parametrize("data", [b"", b"garbage\n", b"1: -> FLOCK\n2:\n", b"1: -> X Y Z W V\n"])
def test_a_table_that_cannot_be_read_names_nobody(tmp_path: Path, data: bytes) -> None:
    """Whatever stands in the table, reading it never fails."""
    assert locks(FakeProc(tmp_path), data).awaited(4712) is None


def test_the_holder_is_named_by_its_command(tmp_path: Path) -> None:
    """A holder that is there has a command line, one that has ended has none."""
    fake = FakeProc(tmp_path)
    fake.add(4711, 1, "python old_run.py")
    table = b"1: FLOCK A WRITE 9999 fe:00:1 0 EOF\n1: -> FLOCK A WRITE 7 fe:00:1 0 EOF\n"

    assert locks(fake).awaited(4712) == LockWait(holder_pid=4711, holder="python old_run.py")
    assert locks(fake, table).awaited(7) == LockWait(holder_pid=9999, holder="")


def test_a_child_that_inherited_the_file_is_the_holder(tmp_path: Path) -> None:
    """Who took the lock has closed the file; the table still names that process."""
    fake = FakeProc(tmp_path)
    for pid, command, file in ((4711, "train.py", "/data"), (4720, "watch.py", "/cache/.lock")):
        fake.add(pid, 1, f"python {command}")
        (tmp_path / f"{pid}/fd").mkdir(exist_ok=True)
        (tmp_path / f"{pid}/fdinfo").mkdir()
        (tmp_path / f"{pid}/fd/5").symlink_to(file)
        (tmp_path / f"{pid}/fdinfo/5").write_text("pos:\t0\n")
    taken = LockWait(holder_pid=4711, holder="python train.py")
    assert locks(fake).awaited(4712) == taken

    told = "lock:\t1: FLOCK  ADVISORY  WRITE 4711 fe:00:2162783 0 EOF\n"
    (tmp_path / "4720/fdinfo/5").write_text("pos:\t0\n" + told)
    assert locks(fake).awaited(4712) == LockWait(holder_pid=4720, holder="python watch.py")
    (tmp_path / "4711/fdinfo/5").write_text("pos:\t0\n" + told)
    assert locks(fake).awaited(4712) == taken


@pytest.mark.parametrize(
    ("call", "link", "path"),
    [
        ("flock", "/cache/.lock", "/cache/.lock"),
        ("futex", "/cache/.lock", None),
        ("flock", "pipe:[7]", None),
        ("flock", None, None),
        (None, None, None),
    ],
)
def test_the_file_is_named_where_the_system_call_tells(
    tmp_path: Path, call: str | None, link: str | None, path: str | None
) -> None:
    """Only a lock call on an open file names the file."""
    fake = FakeProc(tmp_path)
    fake.add(4712, 1, "python train.py")
    (tmp_path / "4712/fd").mkdir(exist_ok=True)
    if link is not None:
        (tmp_path / "4712/fd/5").symlink_to(link)
    numbers = {"x86_64": {"flock": 73, "futex": 202}, "aarch64": {"flock": 32, "futex": 98}}
    if call is not None:
        number = numbers[os.uname().machine][call]
        (tmp_path / "4712/syscall").write_text(f"{number} 0x5 0x2 0x0 0x0 0x0 0x0 0x7ff 0x7f")

    assert locks(fake).awaited(4712) == LockWait(holder_pid=4711, path=path)


def test_a_rank_that_waits_for_those_who_want_its_lock_is_to_blame() -> None:
    """The holder stands in the barrier, the others want its lock first: it is the culprit."""
    facts = still({0: BARRIER, 1: LOCKED, 2: LOCKED})
    for rank in (1, 2):
        facts = wanting(facts, rank, LockWait(holder_pid=1000, path="/cache/.lock"))

    finding = report_of(facts).findings[0]

    assert finding.signature == "file-lock-held-by-rank"
    assert finding.culprit_ranks == (0,)
    assert finding.affected_ranks == (1, 2)
    assert "/cache/.lock" in finding.title
    assert any("held by rank 0, process 1000" in piece.quote for piece in finding.evidence)


@pytest.mark.parametrize("crossed", [True, False])
def test_ranks_that_want_each_others_locks_are_both_to_blame(*, crossed: bool) -> None:
    """A circle of holders; one whose holder waits in the barrier instead is a chain."""
    facts = still({0: BARRIER, 1: LOCKED, 2: LOCKED if crossed else BARRIER})
    facts = wanting(facts, 1, LockWait(holder_pid=1002, path="/cache/index.lock"))
    if crossed:
        facts = wanting(facts, 2, LockWait(holder_pid=1001, path="/cache/features.lock"))

    finding = report_of(facts).findings[0]

    assert finding.signature == ("file-locks-crossed" if crossed else "file-lock-held-by-rank")
    assert finding.culprit_ranks == ((1, 2) if crossed else (2,))
    if crossed:
        assert finding.affected_ranks == (0,)
        assert "rank 2 has /cache/index.lock, which rank 1 wants" in finding.title
    else:
        assert finding.title.endswith("that rank 1 waits for")


LOADS = "locked (cache.py:21)\n" + WORKER.strip()


@pytest.mark.parametrize(
    ("holder", "loop", "signature", "culprit"),
    [
        (1000, LOADER, "file-lock-held-by-rank", 0),
        (4001, LOADER, "dataloader-blocked", 1),  # another worker of the rank
        (1000, ELSEWHERE, "missing-rank-in-collective", 1),  # it does not wait for its workers
    ],
)
def test_a_lock_that_a_worker_waits_for_leads_to_the_rank_that_has_it(
    holder: int, loop: str, signature: str, culprit: int
) -> None:
    """The rank of the worker gets no batch before the holder comes out of the collective."""
    facts = still({0: ALL_REDUCE, 1: loop})
    lock = LockWait(holder_pid=holder, path="/cache/decoded.lock")
    for pid, awaited in ((4000, lock), (4001, None)):
        worker = replace(process(1, pid=pid), role=Role.DATALOADER_WORKER, ppid=1001)
        seen = replace(worker, who=Who(pid=pid), lock=awaited, wchan="locks_lock_inode_wait")
        facts += [seen, dump(None, LOADS, pid=pid)]

    finding = report_of(facts).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, (culprit,))
    if culprit == 0:
        assert finding.affected_ranks == (1,)
        assert finding.evidence[0].quote.startswith("pid 4000 waits for the lock on /cache/decoded")


def test_a_lock_that_a_stranger_holds_names_the_stranger() -> None:
    """All ranks want a lock of a process outside the job: no rank is to blame for it."""
    long = f"/opt/bin/python -u old.py {'--option value ' * 30}--end"
    facts = still({0: LOCKED, 1: LOCKED})
    for rank in (0, 1):
        facts = wanting(facts, rank, LockWait(holder_pid=77, holder=long))

    report = report_of(facts)

    assert report.verdict == "hung"
    assert report.findings[0].category == "stale-lock-file"
    assert report.findings[0].culprit_ranks is None
    assert "process 77 (old.py) holds" in report.findings[0].title
    assert long in report.findings[0].evidence[0].quote
    assert long not in report.headline + report.findings[0].explanation


def test_one_rank_that_wants_a_strangers_lock_is_where_to_look() -> None:
    """The rest of the job waits for the rank that waits for the stranger."""
    facts = wanting(still({0: ALL_REDUCE, 1: LOCKED}), 1, LockWait(holder_pid=77, holder="x"))

    finding = report_of(facts).findings[0]

    assert finding.category == "stale-lock-file"
    assert finding.culprit_ranks == (1,)
    assert finding.affected_ranks == (0,)


POLLING = """
acquire (filelock/_api.py:410)
__enter__ (filelock/_api.py:560)
prepare (train.py:30)
<module> (train.py:60)
"""


def holding(facts: list[Fact], rank: int, *paths: str) -> list[Fact]:
    """Let a rank have locks on files."""
    return [
        replace(fact, holds=paths) if isinstance(fact, Process) and fact.who.rank == rank else fact
        for fact in facts
    ]


def test_the_files_that_a_process_has_locked_are_named(tmp_path: Path) -> None:
    """Of the open files of a holder those count whose entry in fdinfo tells of a lock."""
    fake = FakeProc(tmp_path)
    fake.add(4711, 1, "python train.py")
    opened = (
        ("3", "/a/x.lock", "0100002", "lock:\t1: FLOCK"),
        ("4", "/a/data.bin", "0100000", ""),
    )
    for name, target, flags, info in opened:
        for folder in ("fd", "fdinfo"):
            (tmp_path / "4711" / folder).mkdir(exist_ok=True)
        (tmp_path / "4711" / "fd" / name).symlink_to(target)
        (tmp_path / "4711" / "fdinfo" / name).write_text(f"pos:\t7\nflags:\t{flags}\n{info}\n")

    assert locks(fake).held(4711) == ("/a/x.lock",)
    assert locks(fake).held(4712) == ()
    read_to, only_read = positions(fake.host().proc, 4711)
    assert read_to == {"/a/x.lock": 7, "/a/data.bin": 7}
    assert only_read == ("/a/data.bin",)


def test_a_lock_that_is_polled_for_leads_to_its_holder() -> None:
    """Filelock tries and naps, which the kernel does not show; one rank alone has such a lock."""
    facts = holding(still({0: POLLING, 1: BARRIER, 2: POLLING}), 1, "/cache/data.lock")

    finding = report_of(facts).findings[0]

    assert finding.signature == "file-lock-held-by-rank"
    assert finding.culprit_ranks == (1,)
    assert "/cache/data.lock" in finding.title


def test_a_locked_file_of_another_kind_ties_nobody() -> None:
    """A database that a rank has locked is not the lock file that the others poll for."""
    facts = holding(still({0: POLLING, 1: BARRIER, 2: POLLING}), 1, "/runs/history.db")

    assert report_of(facts).findings[0].signature == "stale-lock-file"


def test_of_two_holders_none_is_taken() -> None:
    """Which of two locks the others poll for cannot be seen."""
    facts = still({0: POLLING, 1: BARRIER, 2: BARRIER})
    facts = holding(holding(facts, 1, "/cache/a.lock"), 2, "/cache/b.lock")

    assert report_of(facts).findings[0].signature == "stale-lock-file"


def test_a_file_that_a_stranger_has_locked_is_known_by_its_inode(tmp_path: Path) -> None:
    """A rank that polls for a lock waits for the process that has one on a file it has open."""
    fake = FakeProc(tmp_path)
    fake.add(4711, 1, "python old_run.py")
    fake.add(7, 1, "python train.py")
    for name, target, inode in (("3", "/a/labels.db", 2162783), ("4", "/a/data.bin", 5)):
        for folder in ("fd", "fdinfo"):
            (tmp_path / "7" / folder).mkdir(exist_ok=True)
        (tmp_path / "7" / "fd" / name).symlink_to(target)
        (tmp_path / "7" / "fdinfo" / name).write_text(f"pos:\t7\nino:\t{inode}\n")
    wait = LockWait(holder_pid=4711, holder="python old_run.py", path="/a/labels.db")

    assert locks(fake).of_others(7) == (wait,)
    assert locks(fake).of_others(4711) == ()


@pytest.mark.parametrize(
    ("stack", "signature"), [(POLLING, "file-lock-held-elsewhere"), (ELSEWHERE, None)]
)
def test_who_polls_for_a_lock_waits_for_a_stranger_that_has_it(
    stack: str, signature: str | None
) -> None:
    """Only who polls waits for a lock: having a file open that another has locked is nothing."""
    lock = LockWait(holder_pid=77, holder="python viewer.py", path="/a/labels.db")
    facts = [
        replace(fact, locked_by_others=(lock,))
        if isinstance(fact, Process) and fact.who.rank == 1
        else fact
        for fact in still({0: BARRIER, 1: stack, 2: BARRIER})
    ]

    findings = report_of(facts).findings

    assert findings[0].culprit_ranks == (1,)
    assert (findings[0].signature == "file-lock-held-elsewhere") is (signature is not None)
    assert ("/a/labels.db" in findings[0].title) is (signature is not None)
