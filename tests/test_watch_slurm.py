"""A job of Slurm that is watched from the login node."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from whyhang.analyzer.cli import main
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import replace
from whyhang.collectors.live.programs import Outcome, TimedCommand
from whyhang.collectors.watch import outputs
from whyhang.collectors.watch.course import JOB
from whyhang.collectors.watch.outputs import SlurmJob


class Controller:
    """Stands in for scontrol: says what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.fields = {"JobState": "PENDING", "ExitCode": "0:0", "Restarts": "0"}
        self.fields |= {"EndTime": "Unknown", "StdOut": f"{folder}/out", "StdErr": f"{folder}/out"}
        self.answers = True

    def run(self, *arguments: str, limit: float) -> Outcome:
        """Print the job on one line, as `scontrol show job -o` does."""
        outcome = Outcome(
            command=TimedCommand(arguments=arguments, limit=limit), code=None, began=0.0
        )
        if not self.answers:
            return replace(outcome, timed_out=True)
        known = arguments[-1] == "7"
        line = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return replace(outcome, code=0 if known else 1, output=f"JobId=7 {line}\n".encode())


@pytest.fixture
def controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """Put the controller in scontrol's place."""
    made = Controller(tmp_path)
    monkeypatch.setattr(outputs, "run", made.run)
    return made


def test_it_is_followed_from_the_queue_to_its_end(controller: Controller, tmp_path: Path) -> None:
    """Waiting is no silence; output is a sign; a state that is final ends it."""
    job = SlurmJob("7.0")
    assert (JOB, "PENDING") in job.look().signs

    controller.fields["JobState"] = "RUNNING"
    (tmp_path / "out").write_text("step 1\n")
    running = job.look()
    assert running.signs == {(JOB, f"{tmp_path}/out"): 7}
    controller.answers = False
    assert job.look().signs == running.signs

    controller.answers = True
    controller.fields["Restarts"] = "1"
    assert job.look().start != running.start
    controller.fields |= {"JobState": "TIMEOUT", "ExitCode": "0:15"}
    assert job.look().over == "Slurm job 7 is TIMEOUT (exit code 0:15)"


def test_its_time_limit_is_known(controller: Controller) -> None:
    """Evidence is kept before it is reached."""
    job = SlurmJob("7")
    assert job.ends_in() is None
    end = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 100))
    controller.fields["EndTime"] = end
    job.look()

    left = job.ends_in()
    assert left is not None
    assert 95 < left <= 100


def test_what_is_no_job_is_reported(
    controller: Controller, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what to give where nothing can be looked at cheaply."""
    with pytest.raises(TargetError, match="knows no job 8"):
        SlurmJob("8")
    assert main(["watch", "--hosts", "n1"]) == 2
    assert "looked at cheaply" in capsys.readouterr().err
