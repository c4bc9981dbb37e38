"""The steps that ranks note: written without ever disturbing them, read as signs of progress."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_sites import collected, site_of
from small_jobs import ALL_REDUCE, ELSEWHERE, case_of, dump, process, report_of, still

import whyhang
from whyhang import _heartbeat, callbacks
from whyhang.analyzer.facts import Fact, Progressed, Role, Source, Trust, Who, replace
from whyhang.analyzer.report import RankRow
from whyhang.analyzer.reports.blocks import Table
from whyhang.analyzer.reports.page import rank_table
from whyhang.collectors.files.folder import read
from whyhang.collectors.heartbeat import HeartbeatReader, parse
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob, JobProcess
from whyhang.collectors.live.probes import heartbeats
from whyhang.collectors.live.proc import Proc

PROGRAM = """
import os, sys, whyhang
for step in range(5):
    whyhang.heartbeat(step)
child = os.fork()
if not child:
    assert not [n for n in os.listdir("/proc/self/fd") if link(n).endswith(".heartbeat")]
    whyhang.heartbeat(70)
    os._exit(0)
os.waitpid(child, 0)
assert not {"torch", "msgspec", "regex", "logging", "whyhang.analyzer"} & set(sys.modules)
"""


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(_heartbeat, "_file", None)
    monkeypatch.setattr(_heartbeat, "_off", False)
    monkeypatch.setenv("WHYHANG_HEARTBEAT_DIR", str(tmp_path / "beats"))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    yield
    if _heartbeat._file is not None:
        _heartbeat._file.drop()


def written(folder: Path) -> list[Any]:
    """Read all files there."""
    return [parse(each.read_text()) for each in sorted((folder / "beats").iterdir())]


def beat(rank: int, step: int, *, when: float = 1000.0, read_at: float = 2000.0) -> Progressed:
    """Make the fact of a rank that has noted many steps, of 2 s each at most."""
    return Progressed(
        who=Who(rank=rank, trust=Trust.CONTENT, pid=1000 + rank),
        source=Source(file="heartbeats.txt", line=rank + 1),
        step=step,
        time=when,
        beats=step + 1,
        longest=2.0,
        read_at=read_at,
    )


def test_a_program_and_its_forked_child_write_a_file_each(tmp_path: Path) -> None:
    """The child is another process; nothing heavy is imported for it."""
    start = "import os\nlink = lambda n: os.path.realpath('/proc/self/fd/' + n)\n"
    subprocess.run([sys.executable, "-c", start + PROGRAM], check=True)

    own, of_child = sorted(written(tmp_path), key=lambda each: each.step)
    assert (own.rank, own.world, own.step, own.beats) == (3, 8, 4, 5)
    assert (of_child.step, of_child.beats) == (70, 1)
    assert own.pid != of_child.pid


def test_a_beat_is_one_line_that_is_written_over(tmp_path: Path) -> None:
    """However often it is called, and whatever whole number the step is."""
    for step in (0, 10**15, 7):
        whyhang.heartbeat(step)
        time.sleep(0.002)

    [file] = (tmp_path / "beats").iterdir()
    parsed = parse(file.read_text())
    assert file.stat().st_size == _heartbeat.SIZE
    assert parsed is not None
    assert (parsed.step, parsed.beats) == (7, 3)
    assert 0 < parsed.longest < 60
    assert abs(parsed.time - time.time()) < 60


def test_calls_are_counted_where_no_number_is_given(tmp_path: Path) -> None:
    """A tensor may live on a GPU: asking for its value would wait for it."""

    class Tensor:
        __module__ = "torch"

        def __index__(self) -> int:
            raise AssertionError("its value was asked for")

    whyhang.heartbeat()
    whyhang.heartbeat(Tensor())  # type: ignore[arg-type]

    assert written(tmp_path)[0].step == 1


@pytest.mark.parametrize("step", ["many", float("nan"), object()])
def test_what_is_no_step_never_raises(step: Any, tmp_path: Path) -> None:
    """It ends the beats, and takes the file away, which would look like a hang."""
    whyhang.heartbeat(1)
    whyhang.heartbeat(step)
    whyhang.heartbeat(2)

    assert list((tmp_path / "beats").iterdir()) == []


def test_no_folder_never_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once in the log."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WHYHANG_HEARTBEAT_DIR", str(tmp_path / "file"))
    for step in range(3):
        whyhang.heartbeat(step)

    assert len(caplog.records) == 1


def test_a_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a link that somebody has put in its place."""
    monkeypatch.delenv("WHYHANG_HEARTBEAT_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"whyhang-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    whyhang.heartbeat(1)

    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_old_files_of_this_user_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job leaves a file a rank, of every start."""
    monkeypatch.delenv("WHYHANG_HEARTBEAT_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"whyhang-{os.getuid()}"
    folder.mkdir()
    for name, age in (("a.1.heartbeat", 15), ("a.2.heartbeat", 1), ("notes", 99)):
        (folder / name).write_text("")
        os.utime(folder / name, (time.time() - age * 86400,) * 2)
    whyhang.heartbeat(1)

    assert {each.name for each in folder.iterdir()} >= {"a.2.heartbeat", "notes"}
    assert not (folder / "a.1.heartbeat").exists()


def test_the_rank_is_asked_of_torch_once_there_is_a_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that the environment tells nothing may come to its group later."""
    monkeypatch.delenv("RANK")
    for name in _heartbeat.RANKS:
        monkeypatch.delenv(name[0], raising=False)
    group = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    whyhang.heartbeat(0)
    assert written(tmp_path)[0].rank is None

    group.is_initialized = lambda: True
    group.get_rank, group.get_world_size = lambda: 5, lambda: 6
    whyhang.heartbeat(1)

    assert (written(tmp_path)[0].rank, written(tmp_path)[0].world) == (5, 6)


def test_files_of_ranks_are_read_wherever_they_lie(tmp_path: Path) -> None:
    """A folder of them tells the world size and where each was last."""
    for rank, step in ((0, 12), (1, 11)):
        line = _heartbeat.line(rank, 2, 40 + rank, step, step, 1.5, 100.0 + rank, "node1")
        (tmp_path / f"node1.{40 + rank}.heartbeat").write_bytes(line)
    (tmp_path / "broken.heartbeat").write_bytes(_heartbeat.MARK.encode() + b"rank ")

    facts = list(read([str(tmp_path)], readers=(HeartbeatReader(),)))
    records = [fact for fact in facts if isinstance(fact, Progressed)]
    assert {(f.who.rank, f.who.pid, f.step) for f in records} == {(0, 40, 12), (1, 41, 11)}
    assert any("broken" in str(fact) for fact in facts)


def test_a_live_rank_is_read_through_its_descriptor() -> None:
    """Twice, and called by the pid that it has here."""
    whyhang.heartbeat(9)
    proc = Proc()
    member = JobProcess(pid=os.getpid(), ppid=1, role=Role.RANK, rank=6)
    host = Host(proc)
    evidence = collected(heartbeats.collect, site_of(host, HostJob(members=(member,))))

    assert [file.entry.path for file in evidence.files] == [
        "heartbeats.look0.txt",
        "heartbeats.look1.txt",
    ]
    first = parse(evidence.files[0].data.decode())
    assert first is not None
    assert (first.rank, first.step, first.host) == (6, 9, "n")


def test_a_rank_that_is_steps_behind_is_named_by_beats_alone() -> None:
    """All are silent for long; the one that has not begun the step of the others is late."""
    report = report_of([beat(0, 120), beat(1, 119), beat(2, 120), beat(3, 120)])

    [finding] = report.findings
    assert finding.signature == "steps-behind"
    assert finding.culprit_ranks == (1,)
    assert finding.affected_ranks == (0, 2, 3)
    assert "step 119" in finding.title


def test_of_several_starts_the_last_counts() -> None:
    """One folder may hold the files of many: a rank is one member all the same."""
    earlier = [
        replace(each, who=replace(each.who, pid=50 + rank))
        for rank, each in enumerate([beat(0, 300, when=10.0), beat(1, 300, when=10.0)])
    ]
    report = report_of([*earlier, beat(0, 120), beat(1, 120)])

    assert [(row.rank, row.activity) for row in report.ranks] == [
        (0, "last in step 120"),
        (1, "last in step 120"),
    ]


@pytest.mark.parametrize(
    "beats",
    [
        [beat(0, 120, when=1998.0), beat(1, 119, when=1997.0), beat(2, 120, when=1998.0)],
        [beat(0, 120), beat(1, 119), beat(2, 119)],
        [beat(0, 120), beat(1, 120), beat(2, 120)],
        [beat(0, 120), beat(1, 120), beat(2, 3, when=-9e4)],
    ],
    ids=["steps take as long", "the many are behind", "all alike", "of an earlier job"],
)
def test_steps_that_name_nobody(beats: list[Progressed]) -> None:
    """A step may be under way, and of equals nobody is the odd one."""
    assert all(f.culprit_ranks is None for f in report_of(beats).findings)


def test_a_step_behind_is_evidence_beside_stacks() -> None:
    """The stack says what the late rank does; its beat, that it is behind."""
    facts: list[Fact] = [*still({0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE})]
    facts += [beat(0, 120), beat(1, 119), beat(2, 120)]
    finding = report_of(facts).findings[0]

    assert finding.culprit_ranks == (1,)
    assert any("came to step 119 last" in piece.quote for piece in finding.evidence)


def test_the_table_of_ranks_shows_the_step_of_each() -> None:
    """Beside what its stack shows; where there are many, ranks at different steps share a row."""
    facts: list[Fact] = [*still({0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE})]
    rows = report_of([*facts, beat(0, 119), beat(1, 118), beat(2, 119)]).ranks
    assert [row.step for row in rows] == [119, 118, 119]
    assert [row.step for row in report_of(facts).ranks] == [None] * 3
    [late, others] = table(rows)
    assert (late[0], late[2].rpartition(", ")[2]) == ("1", "at step 118")
    assert (others[0], others[2]) == ("0,2", f"{rows[0].activity}, at step 119")

    many = [replace(rows[0], rank=rank, step=rank) for rank in range(50)]
    assert [row[0] for row in table(many)] == ["1", "0,2-49"]


def table(rows: Iterable[RankRow]) -> list[tuple[str, ...]]:
    """Return the rows of the table of a report."""
    (table,) = (block for block in rank_table(tuple(rows), {1}) if isinstance(block, Table))
    return list(table.rows)


def test_ranks_in_one_collective_and_different_steps() -> None:
    """Their next calls meet one step off: the fewer are to blame."""
    facts: list[Fact] = [*still(dict.fromkeys(range(3), ALL_REDUCE))]
    facts += [beat(0, 120), beat(1, 121), beat(2, 120)]
    signatures = {finding.signature: finding for finding in report_of(facts).findings}

    assert signatures["in-another-step"].culprit_ranks == (1,)


def test_steps_that_go_on_are_progress() -> None:
    """A rank that waits and has come to another step since had an answer."""
    facts: list[Fact] = [*still(dict.fromkeys(range(3), ALL_REDUCE))]
    assert not case_of(facts).graph.progress
    later = [beat(rank, 121, when=1001.0, read_at=1002.0) for rank in range(3)]
    facts += [*(beat(rank, 120, read_at=1001.0) for rank in range(3)), *later]

    assert case_of(facts).graph.progress


def test_a_step_as_long_as_those_before_is_slow() -> None:
    """Steps took up to 2 min, this one lasts 1: it may well end."""

    def working(silent: float) -> list[Fact]:
        facts: list[Fact] = []
        for look in (0, 1):
            for rank, text in ((0, ALL_REDUCE), (1, ELSEWHERE), (2, ALL_REDUCE)):
                busy = 100 * look if rank == 1 else 0
                facts += [
                    replace(process(rank, look=look, ticks=busy), state="R" if busy else "S"),
                    dump(rank, text.replace(":33", f":{33 + look}"), look=look),
                ]
        now = 1001.0
        for rank in range(3):
            seen = beat(rank, 120, when=now - silent, read_at=now)
            facts.append(replace(seen, longest=120.0))
        return facts

    assert report_of(working(60.0)).verdict == "slow"
    assert report_of(working(900.0)).verdict == "hung"


def test_frameworks_call_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A callback is of the class that the framework wants; without the framework it says so."""
    stands_in = types.ModuleType("transformers")
    stands_in.TrainerCallback = type("TrainerCallback", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", stands_in)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.setitem(sys.modules, "pytorch_lightning", None)
    try:
        made = callbacks.TransformersHeartbeat()
    finally:
        vars(callbacks).pop("TransformersHeartbeat", None)

    assert isinstance(made, stands_in.TrainerCallback)
    made.on_step_begin(None, types.SimpleNamespace(global_step=31), None, model=None)
    assert written(tmp_path)[0].step == 31
    with pytest.raises(ImportError, match="lightning or pytorch_lightning"):
        _ = callbacks.LightningHeartbeat
