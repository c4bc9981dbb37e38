"""Steps that take longer than before: a job that goes on, and is slow."""

from collections.abc import Iterable

import pytest
from log_docs import diagnosed_files

SLOW = [2.0] * 12 + [41.0, 39.5, 44.0, 43.0]
PAUSE = [2.0] * 9 + [300.0] + [2.1] * 4
LAST_PAUSE = [2.0] * 14 + [120.0]
WARM_UP = [90.0, 60.0] + [2.0] * 12
EVEN = [2.0, 2.2, 1.9, 2.1] * 4


def by_clock(paces: Iterable[float]) -> str:
    """Return a log whose times alone tell how long its steps take."""
    time, lines = 0.0, []
    for step, pace in enumerate(paces):
        time += pace * 10
        clock = f"{int(time) // 3600:02d}:{int(time) // 60 % 60:02d}:{int(time) % 60:02d}"
        lines.append(f"2025-04-02 {clock} [trainer] global step {step * 10} loss {3 - step / 50}")
    return "\n".join(lines) + "\n"


def by_words(words: str) -> str:
    """Return a log that says itself how long its steps took."""
    return "".join(f"iter {n * 10}/5000 {words.format(t)} loss 2.1\n" for n, t in enumerate(SLOW))


def by_rate(words: str) -> str:
    """Return a log that says itself how fast it is."""
    return "".join(f"update {n}: {words.format(512 / t)}\n" for n, t in enumerate(SLOW))


@pytest.mark.parametrize(
    "log",
    [
        by_clock(SLOW),
        by_words("time per iter {:.1f}s"),
        by_words("| {:.2f} s/it"),
        by_words("step_time: {:.3f}"),
        by_rate("{:.1f} tokens/s, lr 0.01"),
        by_rate("throughput {:.1f}"),
        by_rate("images/sec: {:.1f} +/- 0.5"),
    ],
)
def test_a_job_that_has_become_slow(log: str) -> None:
    """Its last steps all take several times as long as those before: no hang, and nobody's."""
    report = diagnosed_files({"train.log": log})

    assert (report.verdict, report.findings[0].signature) == ("slow", "steps-slower")
    assert report.findings[0].culprit_ranks is None


@pytest.mark.parametrize(
    "log",
    [
        by_clock(PAUSE),
        by_clock(LAST_PAUSE),
        by_clock(WARM_UP),
        by_clock(EVEN),
        "".join(f"step {n} elapsed time {n * n}.0 s loss 2.1\n" for n in range(1, 20)),
        "".join(f"step {n} grad_norm {t} loss 2.1\n" for n, t in enumerate(SLOW)),
    ],
)
def test_pauses_and_other_numbers(log: str) -> None:
    """One long step is a pause, the first ones are slow, and a time since the start only rises."""
    report = diagnosed_files({"train.log": log})

    assert report.verdict == "inconclusive"


def test_what_failed_is_no_slowness() -> None:
    """Where the steps end in an error, that is what matters."""
    log = by_clock(SLOW) + "RuntimeError: CUDA error: an illegal memory access was encountered\n"

    assert diagnosed_files({"train.log": log}).verdict == "failed"
