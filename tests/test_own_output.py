"""What whyhang wrote beside the evidence, or into a job's own log, is no evidence of the job."""

from pathlib import Path

import pytest

from whyhang import diagnose
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.faces import FACES
from whyhang.collectors.files import own_output

SAMPLES = Path(__file__).parents[1] / "samples"
BEFORE = "2024-05-01 10:00:00 step 118 loss 2.31\n"
AFTER = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/train.py", line 31, in <module>
[rank1]:     load(shard)
[rank1]: OSError: [Errno 5] Input/output error: 'shard-7.bin'
"""
WATCH = "whyhang 22:54:40 HANG: rank 0 has not reached barrier\n"


@pytest.fixture(scope="module")
def report() -> Report:
    """Diagnose a job of which rank 0 is the culprit."""
    return diagnose(SAMPLES / "rank-zero-awaits-metrics" / "bundle.tar.zst")


@pytest.mark.parametrize("name", ["terminal", "markdown"])
def test_a_report_within_a_log_is_no_evidence(report: Report, name: str, tmp_path: Path) -> None:
    """The rest of the log says what it says without it, at the same lines."""
    text = FACES[name].render(report).decode()
    log = tmp_path / "job.out"
    log.write_text(BEFORE + WATCH + text + AFTER)
    read = diagnose(log)

    assert report.findings[0].culprit_ranks == (0,)
    assert [finding.culprit_ranks for finding in read.findings] == [(1,)]
    first = len((BEFORE + WATCH + text).splitlines()) + 1
    lines = {piece.line for piece in read.findings[0].evidence}
    assert lines
    assert all(line is not None and line >= first for line in lines)


@pytest.mark.parametrize("name", ["terminal", "markdown", "html", "json", "sarif", "junit", "dot"])
def test_a_report_beside_a_log_is_left_out(report: Report, name: str, tmp_path: Path) -> None:
    """It is named among what was not read."""
    (tmp_path / "job.out").write_text(BEFORE + AFTER)
    path = tmp_path / f"report{FACES[name].endings[0]}"
    path.write_bytes(FACES[name].render(report))
    read = diagnose(tmp_path)

    assert [finding.culprit_ranks for finding in read.findings] == [(1,)]
    assert [gap for gap in read.gaps if path.name in gap and "report of whyhang" in gap]


def test_the_first_line_of_a_report_is_no_evidence(report: Report, tmp_path: Path) -> None:
    """A script may have kept no more of it: ``whyhang ... | head -1``."""
    first = FACES["markdown"].render(report).decode().splitlines()[0]
    log = tmp_path / "job.out"
    log.write_text(BEFORE + first + "\n" + AFTER)

    assert [finding.culprit_ranks for finding in diagnose(log).findings] == [(1,)]


def test_a_log_that_speaks_of_whyhang_is_a_log() -> None:
    """Neither a line that begins like a report, nor one that names the tool, hides anything."""
    for text in (
        " FAILED  step 3\n" + AFTER,
        "started by whyhang 0.1.0's demo\n" + AFTER,
        "run under whyhang watch\n" + AFTER,
    ):
        assert own_output.without_reports(text.encode()) == text.encode()
        assert not own_output.is_report(text.encode())
