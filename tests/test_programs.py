"""Programs that are run beside each other, each with its limit."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from whyhang.collectors.live.programs import Outcome, TimedCommand, run_all

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="there are no live processes without /proc"
)


def shell(number: int, line: str, limit: float = 5.0) -> TimedCommand:
    """Run a line of shell."""
    return TimedCommand(pid=number, arguments=("sh", "-c", line), limit=limit)


def test_programs_run_beside_each_other() -> None:
    """Output, errors and code come back for each; large output does not block anyone."""
    lines = {1: "head -c 300000 /dev/zero", 2: "echo bad >&2; exit 3", 4: "sleep 0.1"}
    commands = (shell(number, line) for number, line in lines.items())
    ended: list[Outcome] = []
    outcomes = {o.command.pid: o for o in run_all(commands, width=4, ended=ended.append)}
    assert sorted(outcomes) == [1, 2, 4]
    assert len(outcomes[1].output) == 300000
    assert (outcomes[2].code, outcomes[2].errors) == (3, "bad\n")
    assert sorted(outcome.command.pid for outcome in ended) == [1, 2, 4]


def test_program_that_is_not_there() -> None:
    """A missing tool is an outcome that names it."""
    (outcome,) = run_all([TimedCommand(arguments=("/no/such/tool",), limit=1.0)])
    assert (outcome.code, outcome.errors) == (None, "/no/such/tool: No such file or directory")


def test_late_program_is_killed_and_reported() -> None:
    """The limit of one program does not hold the others up; what it started ends with it."""
    ended: list[Outcome] = []
    began = time.monotonic()
    commands = [shell(1, "sleep 613.7 & wait", limit=0.3), shell(2, "echo hi", limit=0.3)]
    outcomes = {o.command.pid: o for o in run_all(commands, width=1, ended=ended.append)}
    assert time.monotonic() - began < 2
    assert (outcomes[1].timed_out, outcomes[1].asleep) == (True, None)
    assert outcomes[2].output == b"hi\n"
    assert [outcome.command.pid for outcome in ended if outcome.timed_out] == [1]
    listed = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert "sleep 613.7" not in listed


def test_a_program_that_closes_its_output_has_its_limit_too() -> None:
    """Nothing more will come from it, and it does not end."""
    began = time.monotonic()
    (outcome,) = run_all([shell(1, "exec >&- 2>&-; sleep 614.7", limit=0.3)])
    assert outcome.timed_out
    assert time.monotonic() - began < 2
