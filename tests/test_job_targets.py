"""Targets that are no job: one program, a launcher without ranks, what may not be looked at."""

from __future__ import annotations

import pytest
from fake_proc import FakeProc
from job_docs import PY, ranks, roles

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Role
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.members import ended


def test_single_program_is_a_job_of_one(fake: FakeProc) -> None:
    """A Python program without ranks is looked at alone, with its workers."""
    fake.add(100, 10, f"{PY} t.py", {})
    fake.add(101, 100, f"{PY} t.py", {}, comm="pt_data_worker")
    job = find_job(fake.host(), 101)
    assert roles(job) == {100: Role.RANK, 101: Role.DATALOADER_WORKER}
    assert (ranks(job), job.family, job.world_size) == ({100: None}, None, None)


def test_single_program_under_a_launcher_that_gives_no_rank(fake: FakeProc) -> None:
    """On one GPU, ``accelerate launch`` starts its one process without a rank."""
    fake.add(100, 10, f"{PY} /venv/bin/accelerate launch t.py", {})
    fake.add(101, 100, f"{PY} t.py", {})
    fake.add(102, 101, f"{PY} t.py", {}, comm="pt_data_worker")
    for pid in (100, 101, 102):
        job = find_job(fake.host(), pid)
        wanted = {101: Role.RANK, 102: Role.DATALOADER_WORKER, 100: Role.LAUNCHER}
        assert roles(job) == wanted
        assert job.launcher == "accelerate"


def test_launcher_that_has_no_rank_yet(fake: FakeProc) -> None:
    """An agent that still waits for the other nodes is worth a look by itself."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun --nnodes 2 t.py", {})
    assert roles(find_job(fake.host(), 100)) == {100: Role.LAUNCHER}


@pytest.mark.parametrize(
    ("pid", "message"),
    [(777, "there is no process 777"), (2, "thread of the kernel"), (30, "has ended")],
)
def test_targets_that_cannot_be_looked_at(fake: FakeProc, pid: int, message: str) -> None:
    """Each says what is wrong and what to do instead."""
    fake.add(30, 10, (), b"", comm="python3", state="Z")
    with pytest.raises(TargetError, match=message) as caught:
        find_job(fake.host(), pid)
    assert caught.value.remedy


def test_target_of_another_user(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose environment may not be read is refused with the way to get it."""
    fake.add(30, 10, f"{PY} t.py", None)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(TargetError, match=r"process 30 .* belongs to") as caught:
        find_job(fake.host(), 30)
    assert 'sudo "$(command -v whyhang)" 30' in caught.value.remedy


def test_target_that_nobody_may_look_into(fake: FakeProc) -> None:
    """A protected process of one's own is refused without advice that would not help."""
    fake.add(30, 10, f"{PY} t.py", None)
    with pytest.raises(TargetError, match="is protected") as caught:
        find_job(fake.host(), 30)
    assert "sudo" not in caught.value.remedy


def test_target_without_python(fake: FakeProc) -> None:
    """Where no Python program runs any more, what is left of the job is looked at."""
    fake.add(30, 10, "/usr/bin/sh entry.sh", {})
    fake.add(31, 30, "/usr/bin/sleep 100", {})
    fake.add(32, 30, f"{PY} t.py", None, state="Z", comm="python")
    job = find_job(fake.host(), 30)

    assert [(member.pid, member.role) for member in job.members] == [
        (30, Role.LAUNCHER),
        (31, Role.LAUNCHER),
    ]
    assert "no Python program runs there" in job.left_out[0].why


def test_exits_that_nobody_collected(fake: FakeProc) -> None:
    """What the kernel keeps of a child that ended: its exit code, or the signal."""
    fake.add(30, 10, "/usr/bin/tail -f /dev/null", {})
    for pid, status in ((31, 1 << 8), (32, 9)):
        fake.add(pid, 30, f"{PY} t.py", {}, state="Z", comm="python", status=status)
    host = fake.host()
    codes = [(e.exitcode, e.signal) for e in ended(host, find_job(host, 30), "n")]

    assert codes == [(1, None), (None, 9)]
