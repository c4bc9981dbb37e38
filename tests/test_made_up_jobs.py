"""Random jobs with one fault, simulated and recorded: no innocent rank is ever named."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from fr_docs import benchmark, tracks

from whyhang.analyzer.collectives import Verdict, recorded_calls

pytestmark = pytest.mark.repo

JOBS = 30
CANNOT_BE_KNOWN = {
    # of two sides that differ, the records before must be long enough to tell who is new
    *("extra-call", "left-loop", "no-receive", "no-send", "opposite-order", "other-dtype"),
    *("other-operation", "other-size", "skipped-call", "unclosed-batch", "wrong-peer"),
}


@pytest.mark.parametrize("seed", range(JOBS))
def test_no_innocent_rank_is_named(seed: int, tmp_path: Path) -> None:
    """Whatever goes wrong on one rank, that one is named or none; who stopped is always found."""
    made = benchmark("fr_job")
    fault, job = made.make_at_random(seed)
    step = max(len(rank.step) for rank in job.ranks)
    made.write(job, tmp_path, step * random.Random(seed).choice((2, 3, 6, 12)))
    read = [
        track
        for path in sorted(tmp_path.iterdir())
        for track in tracks(path.read_bytes(), path.name)
    ]

    report = recorded_calls(read)

    sentences = [finding.says for finding in report.findings if finding.cause]
    named = {rank for f in report.findings if f.cause for rank in f.culprits}
    assert named <= job.guilty, (fault, sentences)
    if fault not in CANNOT_BE_KNOWN:
        assert named == job.guilty, (fault, sentences)
    if fault == "healthy":
        assert [f.verdict for f in report.findings] == [Verdict.ALL_COMPLETED]
