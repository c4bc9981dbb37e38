"""A job that was stopped from outside: while its steps went on, or after it had been silent."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

AGENT = "W1123 11:{} 19733 torch/distributed/elastic/agent/server/api.py:753] Received {} death "
STOPS = {
    "time limit": "slurmstepd: error: *** JOB 90 ON n1 CANCELLED AT 2026-11-23T11:{} DUE TO TIME "
    "LIMIT ***\n",
    "terminated": AGENT.format("{}.608000", 15) + "signal, shutting down workers\n",
    "Ctrl-C": AGENT.format("{}.608000", 2) + "signal, shutting down workers\n"
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "/w/train.py", line 7, in <module>\n[rank1]: KeyboardInterrupt\n',
}
HEADERS = {
    "mmengine": "11/23 11:50:{:02} - mmengine - INFO - Epoch(train) [1][{:3}/100] loss: 2.1",
    "absl": "I1123 11:50:{:02}.046314 1405 train.py:8] step {} loss 2.1",
    "a time alone": "11:50:{:02} I rank 0 iter {}/1000 lm_loss 2.1",
    "JSON": '{{"ts": 17954346{:02}.5, "lvl": "info", "event": "step", "step": {}, "loss": 2.1}}',
    "plain": "2026-11-23 11:50:{:02},120 INFO [train] rank 0 step {} of 100 loss 2.1",
}


def steps(header: str, every: int = 1) -> str:
    return "".join(header.format(at * every, at) + "\n" for at in range(12))


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_steps_up_to_the_stop_are_no_hang(stop: str, header: str) -> None:
    first = diagnosed({None: steps(header) + stop.format("50:12")}).findings[0]
    by_hand = stop == STOPS["Ctrl-C"]
    category = "healthy" if by_hand else "slow-not-hung"
    assert (first.signature, first.category) == ("stopped-at-work", category)
    assert first.culprit_ranks is None


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
def test_a_job_that_was_silent_before_the_stop_may_have_hung(stop: str) -> None:
    report = diagnosed({None: steps(HEADERS["absl"]) + stop.format("58:12")})
    assert "stopped-at-work" not in {finding.signature for finding in report.findings}


@pytest.mark.parametrize(
    "line",
    [
        "[rank1]: RuntimeError: [gloo/transport/tcp/b.cc:78] Timed out waiting 1800ms for recv\n",
        (
            "[rank1]: Traceback (most recent call last):\n"
            '[rank1]:   File "/w/train.py", line 7, in <module>\n[rank1]: ValueError: bad row\n'
        ),
    ],
)
def test_who_failed_or_gave_up_before_is_not_passed_over(line: str) -> None:
    report = diagnosed({None: steps(HEADERS["absl"]) + line + STOPS["terminated"].format("50:12")})
    assert "stopped-at-work" not in {finding.signature for finding in report.findings}
