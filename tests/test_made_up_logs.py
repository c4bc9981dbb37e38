"""Logs of made-up jobs with one fault: innocent ranks are not named, the right ones mostly are."""

from __future__ import annotations

import sys

import pytest
from fr_docs import REPOSITORY

pytestmark = pytest.mark.repo

JOBS = 40
MOST_INNOCENT = 1
LEAST_RIGHT = 0.8


@pytest.mark.live  # it takes longer than any other: forty jobs, each with its own logs
def test_the_guilty_are_named_and_the_innocent_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over forty seeds; ``python benchmarks/log_jobs.py`` runs a thousand."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    names = set(sys.modules)
    import log_jobs

    # no golden reports of these: each change of words would show a hundred times
    monkeypatch.setattr(log_jobs, "diagnose", log_jobs.diagnose.__wrapped__)
    judge = log_jobs.Judge()
    outcomes = {seed: judge.outcome(seed) for seed in range(JOBS)}
    for name in set(sys.modules) - names:
        if name.startswith("log_"):
            del sys.modules[name]

    innocent = {seed: sorted(o.innocent) for seed, o in outcomes.items() if o.innocent}
    assert len(innocent) <= MOST_INNOCENT, innocent
    known = {seed: o.right for seed, o in outcomes.items() if o.right is not None}
    wrong = sorted(seed for seed, right in known.items() if not right)
    assert len(known) > JOBS / 3
    assert len(wrong) <= (1 - LEAST_RIGHT) * len(known), wrong


def test_a_job_is_the_same_for_the_same_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    from log_layout import leave

    assert leave(7).files == leave(7).files
    assert leave(7).files != leave(8).files
