"""Started samples end: by request, with their parent, and with everything below them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whyhang.samples.harness import keeper, scenario

STUBBORN = """
import os, signal, subprocess, sys, time
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, "-S", __file__, "orphan"], start_new_session=True)
    subprocess.Popen([sys.executable, "-S", __file__, "stopped"])
else:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "orphan" in sys.argv and os.fork():
    os._exit(0)  # leaves a grandchild that has another session and no parent
if "stopped" in sys.argv:
    print("rank is ready", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
print("rank is ready", flush=True)
time.sleep(100)
"""


@pytest.fixture
def sample(tmp_path: Path) -> scenario.Sample:
    """Describe a job of three processes, two of which do not go when they are asked to."""
    (tmp_path / "job.py").write_text(STUBBORN)
    return scenario.Sample(
        name="stubborn",
        folder=str(tmp_path),
        title="",
        expect=scenario.Expectation(verdict="hung", category="unknown"),
        start=("{python}", "-S", "{here}/job.py"),
        ranks=3,
        ready="is ready",
        settle=0.1,
    )


def alive(pids: list[int]) -> list[int]:
    living = {pid for pid, _ in keeper.parents()}
    return [pid for pid in pids if pid in living]


def run(sample: scenario.Sample) -> scenario.Running:
    return scenario.Running(sample, scenario.command_line(sample))


def test_nothing_survives_the_end(sample: scenario.Sample) -> None:
    """Stopped processes, orphans and those that ignore SIGTERM are gone after the block."""
    with run(sample) as job:
        job.wait_ready(20)
        pids = job.processes()
        assert len(pids) == 3
        assert job.pid in pids
    assert alive(pids) == []


def test_nothing_survives_a_killed_parent(sample: scenario.Sample, tmp_path: Path) -> None:
    """When the program that started a sample is killed outright, the sample ends all the same."""
    program = (
        "import sys, time; from pathlib import Path; from whyhang.samples.harness import scenario\n"
        f"argv = [sys.executable, '-S', {str(tmp_path / 'job.py')!r}]\n"
        "expect = scenario.Expectation(verdict='hung', category='unknown')\n"
        "sample = scenario.Sample(name='s', folder='', title='', expect=expect, ranks=3,"
        " ready='is ready', settle=0.0)\n"
        "job = scenario.Running(sample, argv); job.wait_ready(20)\n"
        "print(*job.processes(), flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
    assert len(pids) == 3
    deadline = time.monotonic() + 10
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(pids) == []


def test_ctrl_c_at_the_terminal_reaches_only_the_parent(sample: scenario.Sample) -> None:
    """The job is in a session of its own, so that a Ctrl-C ends it once and in order."""
    with run(sample) as job:
        job.wait_ready(20)
        assert os.getsid(job.pid) != os.getsid(0)
        assert os.getpgid(job.pid) != os.getpgid(0)


def test_a_job_that_ends_early_is_reported_with_its_output(sample: scenario.Sample) -> None:
    """A job that fails before its hang is reported with what it printed last."""
    with scenario.Running(sample, [sys.executable, "-S", "-c", "print('no such data')"]) as job:
        with pytest.raises(scenario.ScenarioError) as error:
            job.wait_ready(20)
        assert "no such data" in str(error.value)


@pytest.mark.parametrize("seconds", ["0.3", "60"], ids=["time is up", "SIGTERM"])
def test_the_end_of_the_keeper_ends_the_job(seconds: str, tmp_path: Path) -> None:
    """A job whose parent never ends it is over when its time is up, or its keeper ends."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-I", "-S", keeper.__file__, "--seconds", seconds]
    command += ["--scratch", str(scratch), "--", "sleep", "100"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as kept:
        assert kept.stdout is not None
        pid = int(kept.stdout.readline().split()[1])
        if seconds == "60":
            kept.send_signal(signal.SIGTERM)
        kept.wait(timeout=10)
    assert alive([pid]) == []
    assert not scratch.exists()


def test_traces_of_another_job_do_not_reach_the_sample(
    sample: scenario.Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started from inside a Slurm or torchrun job, a sample does not take that job's rank."""
    monkeypatch.setenv("RANK", "7")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "outer")
    show = "import os; print(*sorted(os.environ)); print('is ready ' * 3); input()"
    with scenario.Running(sample, [sys.executable, "-S", "-c", show]) as job:
        job.wait_ready(20)
        names = job.output().split()
    assert not {"RANK", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"} & set(names)
    assert "TMPDIR" in names
