"""Real jobs that truly hang: attach to each, and hold the diagnosis against the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from whyhang.analyzer.facts import fold
from whyhang.analyzer.report import Report
from whyhang.samples.harness import keeper, scenario
from whyhang.samples.harness.expected import deviations

SAMPLES = scenario.samples()
STARTABLE = [
    pytest.param(name, marks=pytest.mark.variation) if SAMPLES[name].like else name
    for name in sorted(SAMPLES)
    if SAMPLES[name].start
]
EXIT_CODES = {"healthy": 0, "hung": 3, "failed": 3, "inconclusive": 4, "slow": 5}
READY_LIMIT = 120.0
ATTACH_LIMIT = 90.0


@pytest.mark.live
@pytest.mark.parametrize("name", STARTABLE)
def test_live_diagnosis(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Pointed at the launcher of a running sample, whyhang says what is the matter with it.

    The exit code agrees with the verdict, the job is still there and unchanged afterwards,
    and nothing of it is left once it is ended. From what the job printed alone nothing is
    said with confidence that is not so.
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
    (tmp_path / "job.log").write_text(output)
    logs = from_log(tmp_path / "job.log")
    for column, value in row_of(sample, report, logs).items():
        record_property(column, value)
    assert deviations(sample, report) == [], f"{report.headline}\n{output[-2000:]}"
    assert done.returncode == EXIT_CODES[report.verdict]
    assert before == after
    assert not before & {pid for pid, _ in keeper.parents()}
    assert not misnamed(sample, logs), logs.headline


def from_log(path: Path) -> Report:
    """Diagnose what the job printed, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "whyhang", str(path), "--format", "json"],
        capture_output=True,
        timeout=ATTACH_LIMIT,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Report)


def row_of(sample: scenario.Sample, report: Report, logs: Report) -> dict[str, str]:
    """Put into words for the table what is true and what was said."""
    truth, ranks = sample.expect.category, sample.expect.culprit_ranks
    right = not deviations(sample, logs) or not open_question(logs)
    logs_right = "WRONG" if misnamed(sample, logs) else "right" if right else ""
    return {
        "sample": sample.name,
        "truth": f"{truth}{f' {fold(ranks)}' if ranks else ''}",
        "live": summary(report),
        "live_right": "WRONG" if deviations(sample, report) else "right",
        "logs": summary(logs),
        "logs_right": logs_right,
    }


def summary(report: Report) -> str:
    """Give the category and the ranks that a report names first."""
    if open_question(report):
        return report.verdict
    first = report.findings[0]
    return f"{first.category}{f' {fold(first.culprit_ranks)}' if first.culprit_ranks else ''}"


def open_question(report: Report) -> bool:
    """Tell whether a report leaves open what happened."""
    return not report.findings or report.verdict == "inconclusive"


def misnamed(sample: scenario.Sample, report: Report) -> bool:
    """Tell whether a report says with confidence what is not so, or blames the innocent.

    That a job is healthy which hangs is wrong however little it is sure.
    """
    if report.verdict == "healthy":
        return sample.expect.verdict not in {"healthy", "slow"}
    if open_question(report) or report.findings[0].confidence < 0.5:
        return False
    first, expect = report.findings[0], sample.expect
    if first.category in expect.from_logs:
        return False
    named = set(first.culprit_ranks or ())
    innocent = expect.culprit_ranks is not None and not named <= set(expect.culprit_ranks)
    return innocent or first.category not in {expect.category, *expect.also}


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
        _, output = demo.communicate(timeout=30)
    assert started
    assert b"Traceback" not in output
    assert demo.returncode == 130
    deadline = time.monotonic() + 5
    while left := set(started) & {pid for pid, _ in keeper.parents()}:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


@pytest.mark.live
def test_where_a_rank_sleeps_past_any_signal_is_known_from_its_kernel_stack() -> None:
    """A read from a mount whose server is gone sleeps so once a signal has come for its process."""
    sample = SAMPLES["dead-mount"]
    lack = scenario.missing(sample)
    if lack is not None:
        pytest.skip(str(lack))
    with scenario.start(sample) as job:
        job.wait_ready(READY_LIMIT)
        rank = next(pid for pid in job.processes() if b"\0RANK=1\0" in environ_of(pid))
        os.kill(rank, signal.SIGINT)
        deadline = time.monotonic() + 20
        while Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[0] != "D":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        done = subprocess.run(
            [sys.executable, "-m", "whyhang", str(job.pid), "--format", "json"],
            capture_output=True,
            timeout=ATTACH_LIMIT,
            check=True,
        )
    report = msgspec.json.decode(done.stdout, type=Report)
    assert deviations(sample, report) == []
    first = report.findings[0]
    quotes = [piece.quote for piece in first.evidence if piece.rank == 1]
    assert any("in the kernel: request_wait_answer ←" in quote for quote in quotes)
    assert any("stat /" in step and "shard-0002.bin;" in step for step in first.next_steps)
    gap = next(gap for gap in report.gaps if "uninterruptible sleep" in gap)
    assert "as root" not in gap


def environ_of(pid: int) -> bytes:
    """Read the environment of a process; nothing where it is gone."""
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
