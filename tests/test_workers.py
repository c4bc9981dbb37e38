"""Many recorder dumps are read by several processes, to the same facts as by one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fr_docs import entry, header, open_entry, pickled

from whyhang.analyzer.cli import main
from whyhang.analyzer.facts import Fact, Gap, Track, replace
from whyhang.collectors import READERS
from whyhang.collectors.files import folder, workers
from whyhang.collectors.files.archive import Store

RANKS = 12


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three workers share even a few files."""
    monkeypatch.setattr(workers, "CHUNK", 2)
    monkeypatch.setattr(workers, "worth_it", lambda count: 3 if count else 1)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Write dumps of a job of which rank 5 has stopped, among other files."""
    where = tmp_path / "dumps"
    where.mkdir()
    top = header(("0", "default_pg", tuple(range(RANKS))))
    for rank in range(RANKS):
        calls = [entry(n) for n in range(80)] + [open_entry(80)] * (rank != 5)
        (where / f"nccl_trace_rank_{rank}").write_bytes(pickled(top, calls))
    (where / "nccl_trace_rank_3").write_bytes(b"\x80\x02cos\nsystem\n.")
    (where / "nccl_trace_rank_4").write_bytes(b"")
    (where / "notes.bin").write_bytes(b"\x80\x02}q\x00.")
    return where


def read(path: Path) -> list[Fact]:
    """Read everything; what more a track can tell is told at once, to be compared."""
    with Store() as store:
        listed = list(folder.read([path], readers=READERS, store=store))
        tracks = [fact for fact in listed if isinstance(fact, Track) and fact.detail is not None]
        assert tracks
        assert all(len(track.detail()) in {80, 81} for track in tracks if track.detail)
    return [replace(f, detail=None) if isinstance(f, Track) else f for f in listed]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.usefixtures("several")
def test_workers_read_what_one_process_reads(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """Facts and gaps are the same and in the same order, from a folder and from an archive."""
    path = dumps
    if packed:
        path = dumps.with_suffix(".tar.gz")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(dumps, arcname="dumps")
    shared = read(path)
    monkeypatch.setattr(workers, "worth_it", lambda _: 1)

    assert shared == read(path)
    assert len({gap.why for gap in shared if isinstance(gap, Gap)}) == 3


def killed(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def failing(number: int) -> int:
    if number == 7 and os.getpid() != FIRST:
        raise ValueError
    return number


def unsendable(number: int) -> object:
    return (lambda: number) if number == 7 and os.getpid() != FIRST else number


FIRST = os.getpid()
CHUNKS = [[number, number + 1] for number in range(0, 20, 2)]


@pytest.mark.parametrize("work", [failing, unsendable])
@pytest.mark.usefixtures("several")
def test_what_a_worker_cannot_do_is_done_here(work: Callable[[int], int]) -> None:
    """A failure costs the time of a few files, and nothing of what they say."""
    assert list(workers.in_order(work, CHUNKS, 3)) == list(range(20))


@pytest.mark.usefixtures("several")
def test_the_share_of_a_worker_that_was_killed_is_done_here() -> None:
    """The system may kill any process that is short of memory."""

    def work(number: int) -> int:
        return killed(number) if os.getpid() != FIRST else number

    assert list(workers.in_order(work, CHUNKS, 3)) == list(range(20))


def test_without_more_processes_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may have as many processes as it allows."""

    def none_left() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", none_left)
    assert list(workers.in_order(str, CHUNKS, 3)) == [str(number) for number in range(20)]


@pytest.mark.usefixtures("several")
def test_workers_end_when_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that is given up leaves no process behind, not even in the middle of sending."""
    pids: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        pids.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", noted)
    results = workers.in_order(lambda number: bytes(1 << 20) + bytes([number]), CHUNKS * 2, 3)
    next(results)
    results.close()

    assert len(pids) == 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_few_files_are_read_by_one_process() -> None:
    """To start a worker takes longer than to read a dump."""
    assert workers.worth_it(0) == workers.worth_it(1) == 1
    assert workers.worth_it(1 << 20) <= workers.MOST


def test_what_is_sent_back_together_is_bounded() -> None:
    """Neighbours go together, up to a number of files and a number of bytes."""
    small = workers.chunked(range(100), lambda _: 1000)
    large = workers.chunked(range(5), lambda _: workers.CHUNK_BYTES // 2)

    assert [len(chunk) for chunk in small] == [32, 32, 32, 4]
    assert large == [[0, 1], [2, 3], [4]]
    assert [number for chunk in small for number in chunk] == list(range(100))


@pytest.mark.usefixtures("several")
def test_logs_of_many_ranks_are_read_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of logs gives the same report, word for word, from several processes as from one."""
    for rank in range(RANKS):
        lines = [f"[rank{rank}]: step {step} loss 2.{step}\n" for step in range(300)]
        if rank != 5:
            lines.append(
                f"[rank{rank}]:[E1122 02:00:00.123456789 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
                "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=300, "
                "OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600029 "
                "milliseconds before timing out.\n"
            )
        (tmp_path / f"rank{rank}.log").write_text("".join(lines))
    forks = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(1) or fork())
    main([str(tmp_path), "--format", "json"])
    shared = capsys.readouterr().out
    assert len(forks) == 3

    monkeypatch.setattr(workers, "worth_it", lambda _: 1)
    main([str(tmp_path), "--format", "json"])
    alone = capsys.readouterr().out

    assert len(forks) == 3
    assert shared == alone
    assert '"rank": 3' in shared


def test_an_archive_can_be_asked_again(dumps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The history of a rank is read while the diagnosis is made, from an archive, too."""
    path = dumps.with_suffix(".tar.gz")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(dumps, arcname="dumps")

    assert main([str(path)]) == 0
    assert "Rank 5 has not reached" in capsys.readouterr().out


def test_workers_end_with_the_process_that_was_killed() -> None:
    """They hold each other's pipes open: without care they would wait for ever."""
    program = """
import os, time
from whyhang.collectors.files import workers

def work(number):
    os.write(1, b"%d\\n" % os.getpid())
    time.sleep(60)

list(workers.in_order(work, [[0], [1]], 2))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        assert parent.pid not in pids
        parent.kill()
        rest, _ = parent.communicate(timeout=10)  # ends when nobody holds its pipe any more
    assert rest == ""
