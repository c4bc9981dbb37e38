"""Reading that workers share: the same facts in the same order, whoever reads, goes or lies."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest
from small_jobs import ALL_REDUCE

from whyhang import __version__
from whyhang.analyzer.cards.load import KnownSignatures, known
from whyhang.analyzer.cli import main
from whyhang.analyzer.commands.readers import readers_for, search_of
from whyhang.analyzer.facts import Fact, StackDump
from whyhang.analyzer.facts.base import Trust
from whyhang.collectors import limits
from whyhang.collectors.files import spool
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.folder import read
from whyhang.collectors.files.meter import Meter
from whyhang.collectors.shards import channel, worker
from whyhang.collectors.shards.channel import Channel, ChannelError
from whyhang.collectors.shards.team import WorkerTeam

DUMP = """\
Process {pid}: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    main (train.py:{rank})
    <module> (train.py:9)
"""
LOCK = threading.RLock()


@pytest.fixture(scope="module")
def knowledge() -> KnownSignatures:
    """Load the signatures once."""
    return known([])


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give files the time that several workers in one process take from each other."""
    monkeypatch.setattr(limits, "SECONDS", 60.0)


class InProcess(Channel):
    """A worker in this process; what goes to it and comes back crosses the wire all the same.

    ``answers`` is how many questions it answers before it is gone.
    """

    def __init__(self, number: int, knowledge: KnownSignatures, answers: int = 1 << 30) -> None:
        super().__init__("n1")
        self.number, self.answers, self.asked = number, 1, 0
        self.session = worker.Worker()
        search = search_of(knowledge)
        assert self.ask("begin", number, search.patterns, search.owners) == __version__
        self.answers, self.asked = answers, 0

    def exchange(self, question: bytes, seconds: float | None) -> bytes:
        """Answer as a program beyond a pipe would."""
        with LOCK:
            self.asked += 1
            if self.asked > self.answers:
                self.session.close()  # a machine that is gone takes its files along
                raise ChannelError("gone")
            spool.here = self.number
            try:
                return self.session.answer(question)
            finally:
                spool.here = None

    def close(self) -> None:
        """Remove what was unpacked."""
        self.session.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Lay out dumps, a log, archives of them, a bundle and an empty file."""
    place = tmp_path / "job"
    for host in range(6):
        own = place / f"node{host}"
        own.mkdir(parents=True)
        for rank in range(host * 4, host * 4 + 4):
            (own / f"rank{rank}.txt").write_text(DUMP.format(pid=100 + rank, rank=rank))
        (own / "train.log").write_text(f"[rank{host}]: ValueError: no {host}\n" * 8)
        with tarfile.open(place / f"old{host}.tar.gz", "w:gz") as packed:
            packed.add(own, f"old{host}")
    (place / "empty.txt").touch()
    return place


def facts_of(folder: Path, knowledge: KnownSignatures, team: WorkerTeam | None) -> list[Fact]:
    """Read a folder."""
    readers = readers_for(knowledge, Meter())
    if team is None:
        return list(read([folder], readers=readers))
    with Store() as store, team:
        return list(read([folder], readers=readers, store=store, team=team))


@pytest.mark.parametrize("answers", [0, 2, 1000])
def test_workers_give_the_facts_of_one_machine(
    folder: Path, knowledge: KnownSignatures, answers: int
) -> None:
    """Equal, in the same order; also if one of two is gone at once or after a while."""
    alone = facts_of(folder, knowledge, None)
    workers = [InProcess(0, knowledge, answers), InProcess(1, knowledge)]
    team = WorkerTeam(workers)

    assert facts_of(folder, knowledge, team) == alone
    assert len([fact for fact in alone if isinstance(fact, StackDump)]) == 48
    assert bool(team.lost) == (answers < 1000 and workers[0].asked > answers)


def test_nobody_is_left(folder: Path, knowledge: KnownSignatures) -> None:
    """Without any worker all is read here."""
    alone = facts_of(folder, knowledge, None)
    team = WorkerTeam([InProcess(0, knowledge, 1), InProcess(1, knowledge, 1)])
    assert facts_of(folder, knowledge, team) == alone
    assert len(team.lost) == 2


def test_a_worker_that_cannot_see_a_file_leaves_it_to_others(
    folder: Path, knowledge: KnownSignatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is on this machine only is read on this machine."""
    alone = facts_of(folder, knowledge, None)
    opened = worker.Worker._opened
    monkeypatch.setattr(
        worker.Worker,
        "_opened",
        lambda self, file: None if "node" in file.item.path else opened(self, file),
    )
    team = WorkerTeam([InProcess(0, knowledge)])
    assert facts_of(folder, knowledge, team) == alone
    assert not team.lost


def test_a_member_is_read_again_from_the_worker_that_has_it(
    folder: Path, knowledge: KnownSignatures
) -> None:
    """The lines around evidence come of files that another machine has unpacked."""
    with Store() as store, WorkerTeam([InProcess(0, knowledge)]) as team:
        list(read([folder], readers=readers_for(knowledge, Meter()), store=store, team=team))
        extent = store.files["old3.tar.gz/old3/train.log"]
        with extent.open() as stream:
            assert stream.read(20) == b"[rank3]: ValueError:"
            stream.seek(-5, os.SEEK_END)
            assert stream.read() == b"no 3\n"
    with pytest.raises(FileNotFoundError, match="has ended"):
        extent.open()


class Evil:
    """What a node might send that wants more than to tell facts."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call


def test_members_of_enumerations_are_facts() -> None:
    """Python 3.11.0 to 3.11.3 pickle one by its name."""
    for sent in (Trust.FILE_NAME, Evil(getattr, Trust, "FILE_NAME")):
        assert channel.facts_in(pickle.dumps(sent)) is Trust.FILE_NAME


@pytest.mark.parametrize(
    "sent",
    [
        Evil(os.system, "touch /tmp/whyhang-was-here"),
        Evil(eval, "1"),
        Evil(functools.partial, os.system),
        Evil(subprocess.Popen, ["true"]),
        Evil(main, ["--version"]),
        Evil(getattr, ALL_REDUCE, "__class__"),
        Evil(getattr, Trust, "mro"),
    ],
)
def test_an_answer_calls_nothing(sent: Evil) -> None:
    """What comes from a node makes records and plain data, or is refused."""
    with pytest.raises(ChannelError, match=r"is no fact"):
        channel.facts_in(pickle.dumps((True, sent)))


@pytest.mark.parametrize(
    ("on", "says", "remedy"),
    [
        ("kubernetes", "there is no such kind of cluster", "--on ray[:ADDRESS] or"),
        ("slurm", "this shell is in no allocation", "salloc"),
        ("slurm:x;y", "a job is a number", "squeue"),
        ("slurm:7", "", "squeue --me"),
    ],
)
def test_a_cluster_that_is_not_there_is_reported_in_words(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    on: str,
    says: str,
    remedy: str,
) -> None:
    """Each with what to do."""
    (tmp_path / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: no such job' >&2\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert main([str(folder), "--on", on]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert remedy in err


def test_a_pid_is_looked_at_here(capsys: pytest.CaptureFixture[str]) -> None:
    """``--on`` is for files."""
    assert main([str(os.getpid()), "--on", "slurm"]) == 2
    assert "--on reads files" in capsys.readouterr().err


def test_few_nodes_get_several_workers_each() -> None:
    """Sixteen in all, on many nodes one each."""
    assert [channel.on_each(nodes) for nodes in (1, 2, 4, 16, 500)] == [8, 8, 4, 1, 1]
