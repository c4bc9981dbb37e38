"""Real jobs that truly hang: attach to each, and hold the diagnosis against the truth."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import msgspec
import pytest

from whyhang.analyzer import keeper, scenario
from whyhang.analyzer.expected import deviations
from whyhang.analyzer.report import Report

SAMPLES = scenario.samples()
STARTABLE = [name for name in sorted(SAMPLES) if SAMPLES[name].start]
EXIT_CODES = {"healthy": 0, "hung": 3, "failed": 3, "inconclusive": 4, "slow": 5}
READY_LIMIT = 120.0
ATTACH_LIMIT = 90.0


@pytest.mark.live
@pytest.mark.parametrize("name", STARTABLE)
def test_live_diagnosis(name: str) -> None:
    """Pointed at the launcher of a running sample, whyhang says what is the matter with it.

    The exit code agrees with the verdict, the job is still there and unchanged afterwards,
    and nothing of it is left once it is ended.
    """
    sample = SAMPLES[name]
    lack = scenario.missing(sample)
    if lack is not None:
        pytest.skip(str(lack))
    with scenario.start(sample) as job:
        job.wait_ready(READY_LIMIT)
        before = set(job.processes())
        done = subprocess.run(
            [sys.executable, "-m", "whyhang", str(job.pid), "--format", "json", "--exit-code"],
            capture_output=True,
            timeout=ATTACH_LIMIT,
            check=False,
        )
        after = set(job.processes())
        output = job.output()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert done.stdout, done.stderr.decode()
    report = msgspec.json.decode(done.stdout, type=Report)
    assert deviations(sample, report) == [], f"{report.headline}\n{output[-2000:]}"
    assert done.returncode == EXIT_CODES[report.verdict]
    assert before == after
    assert not before & {pid for pid, _ in keeper.parents()}


@pytest.mark.live
@pytest.mark.parametrize("moment", ["starting:", "waiting until", "it hangs"])
def test_ctrl_c_leaves_no_process_behind(moment: str) -> None:
    """A demo that is interrupted, at whatever moment, takes its job along and says nothing ugly."""
    lack = scenario.missing(SAMPLES["stopped-rank"])
    if lack is not None:
        pytest.skip(str(lack))
    with subprocess.Popen(
        [sys.executable, "-m", "whyhang", "demo", "stopped-rank", "--looks", "5"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as demo:
        assert demo.stderr is not None
        while moment.encode() not in demo.stderr.readline():
            assert demo.poll() is None
        time.sleep(0.2)
        started = keeper.descendants(demo.pid)
        demo.send_signal(signal.SIGINT)
        _, said = demo.communicate(timeout=30)
    assert started
    assert b"Traceback" not in said
    assert demo.returncode == 130
    deadline = time.monotonic() + 5
    while left := set(started) & {pid for pid, _ in keeper.parents()}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)
