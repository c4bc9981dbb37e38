"""Ranks that gave up waiting, in words of their program: for whom, or who does not say so."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

STEPS = "".join(f"[rank{rank}]: step 40 loss 2.1\n" for rank in range(4))
WAITING = (0, 1, 3)


def log(*lines: str, ranks: tuple[int, ...] = WAITING) -> str:
    """Return a log of four ranks, of which some print these lines behind another step."""
    further = "".join(f"[rank{rank}]: step 41 loss 2.0\n" for rank in ranks)
    return STEPS + further + "".join(f"[rank{rank}]: {x}\n" for rank in ranks for x in lines)


def raised(error: str) -> tuple[str, ...]:
    """Return a traceback that ends with an error."""
    return (
        "Traceback (most recent call last):",
        '  File "/home/u/ring.py", line 44, in wait_all',
        "    raise error",
        error,
    )


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        (raised("TimeoutError: no message from rank 2 after 30s"), (3,)),
        (raised("RuntimeError: Rank 0: barrier timed out after 60s, missing ranks: [2]"), (0,)),
        (raised("RuntimeError: timed out waiting for activations of peers"), WAITING),
        (("ERROR barrier 41 did not complete within 120 s",), WAITING),
        (("WARNING: receive from rank 2 timed out", *raised("ValueError: no tensor")), WAITING),
        (("ERROR time-out in the barrier of all ranks at step 41",), WAITING),
        (("giving up: rank 2 has not arrived",), (0,)),
        (("ERROR link to rank 2 went down",), WAITING),
        (("exchange with rank 2 failed: no answer",), (1,)),
        (("WARNING - 等待 rank 2 的 token 超时",), (0,)),
        (("WARNING - 接收token超时", *raised("AttributeError: no attribute 'item'")), WAITING),
        (("WARNING: 受信がタイムアウトしました",), WAITING),
    ],
)
def test_who_did_not_come_where_others_gave_up(
    lines: tuple[str, ...], ranks: tuple[int, ...]
) -> None:
    """It is whom they name, or the one that does not say so; not who was left alone."""
    report = diagnosed({None: log(*lines, ranks=ranks)})

    assert report.findings[0].category == "missing-rank-in-collective", report.headline
    assert report.findings[0].culprit_ranks == (2,), report.headline


@pytest.mark.parametrize(
    "text",
    [
        log(*raised("RuntimeError: timed out waiting for its peers"), ranks=(0, 1, 2, 3)),
        log(*raised("TimeoutError: the barrier timed out"), ranks=(1,)),
        log("WARNING: receive from rank 2 timed out, retrying", ranks=(1,))
        + "".join(f"[rank{r}]: step {s} loss 2.0\n" for s in range(42, 46) for r in range(4)),
        log("ERROR time-out on rank 1 in the barrier", ranks=(1,)),
        log("sent 12 messages to rank 2, closed the epoch", ranks=(1,)),
        log("INFO 通信超时时间: 30秒", ranks=(1,)),
    ],
)
def test_nobody_is_blamed_where_nothing_tells_who(text: str) -> None:
    """All gave up, one alone did among silent ones, it went on, or the line names its own rank."""
    report = diagnosed({None: text})

    assert not any(x.culprit_ranks for x in report.findings), report.headline


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: gradients of layer 3 are missing",
        "KeyError: 'missing key rank in config'",
        "RuntimeError: Expected all ranks to have the same number of gradients but 3 are missing",
        "requests.exceptions.ReadTimeout: Read timed out. (read timeout=60)",
        "RuntimeError: DataLoader timed out after 60 seconds",
    ],
)
def test_other_errors_are_no_waits_for_ranks(error: str) -> None:
    """What is missing is no rank, and who is late no peer."""
    report = diagnosed({None: log(*raised(error), ranks=(1,))})

    assert not any(
        x.signature.startswith(("failed-wait", "failed-awaited")) for x in report.findings
    )


@pytest.mark.parametrize(
    "text",
    [
        "2031-01-01 10:00:00 rank 3 did not join the round yet\n",
        "[rank1] rank 3 has not arrived, waiting\n",
    ],
)
def test_who_may_still_come_is_a_possibility(text: str) -> None:
    """Nobody has given up waiting for it; a person who writes that is read elsewhere."""
    (finding,) = diagnosed({None: text}).findings

    assert finding.culprit_ranks == (3,)
    assert finding.confidence < 0.5
