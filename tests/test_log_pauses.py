"""How long the logs of a job were silent while it worked, and what that says of a wait."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from log_docs import read_log
from small_jobs import ALL_REDUCE, case_of, dump, process, report_of

from whyhang.analyzer.commands.left_open import with_a_long_step, within_its_pauses
from whyhang.analyzer.facts import Fact, replace
from whyhang.analyzer.rank_state.over_time.log_pauses import longest_pause

UPLOAD = "readinto (socket.py:700)\ngetresponse (http/client.py:1300)\nput (store.py:57)\n"
SOLVES = "svd (numpy/linalg/_linalg.py:1680)\nspectrum (train.py:46)\n"
CALLER = "train (train.py:40)\n<module> (train.py:60)\n"


def steps(*seconds: float) -> str:
    """Write a log that counts its steps at these times."""
    return "".join(
        f"2026-11-30 00:{int(at) // 60:02}:{int(at) % 60:02},000 step {10 * n} loss 0.{n}\n"
        for n, at in enumerate(seconds, 1)
    )


def took(*seconds: float) -> str:
    """Write a log without times, whose lines tell how long something took."""
    return "".join(f"it {30 * n} loss 0.{n} ({each:.1f}s)\n" for n, each in enumerate(seconds, 1))


@pytest.mark.parametrize(
    ("log", "pause"),
    [
        (steps(1, 2, 3, 23, 24), 20.0),
        ("2026-11-30 00:00:00,000 loading the model\n" + steps(50, 51, 52, 53), 1.0),
        (steps(1, 21), None),
        (took(0.1, 22.5, 0.1, 21.0), 22.5),
        (took(10, 20, 30, 40), None),
        ("limit of 600 s\n" + took(0.1, 0.2, 0.1), 0.2),
    ],
    ids=["a save", "start", "two lines", "told", "adds up", "a limit"],
)
def test_the_longest_silence_since_the_job_counts(log: str, pause: float | None) -> None:
    """From the first line of a statement that comes again and again; not what adds up."""
    assert longest_pause(case_of(read_log(log)).job) == pause


def job(stack: str, log: str, *, silent: float, runs: bool, waited: float = 9.0) -> list[Fact]:
    """Make a job whose rank 2 is in one call at two looks; the others have waited that long."""
    facts: list[Fact] = [*read_log(log)]
    for look in (0, 1):
        for rank in (0, 1, 2):
            works = runs and rank == 2
            seen = process(rank, look=look, state="R" if works else "S", ticks=95 * look * works)
            asleep = (waited if look == 0 else 0.9) if rank < 2 else None
            facts.append(replace(seen, silent_for=silent + look, asleep_for=asleep, started_at=0.0))
            facts.append(dump(rank, f"{stack if rank == 2 else ALL_REDUCE}{CALLER}", look=look))
    return facts


@pytest.mark.parametrize(
    ("times", "silent", "asked"),
    [
        ((1, 2, 3, 23, 24), 9.0, True),
        ((1, 2, 3, 23, 24), 40.0, False),
        ((1, 2, 3, 4, 5), 9.0, False),
        ((1, 2, 3, 203, 204), 9.0, False),
    ],
    ids=["as before", "longer than before", "never so long", "too long to be watched"],
)
def test_an_answer_from_outside_is_waited_for_as_long_as_it_took_before(
    times: Sequence[float], silent: float, *, asked: bool
) -> None:
    """A checkpoint is sent away every few steps, and the others wait meanwhile."""
    case = case_of(job(UPLOAD, steps(*times), silent=silent, runs=False))
    assert bool(within_its_pauses(case)) is asked


@pytest.mark.parametrize(
    ("log", "verdict"), [(took(0.1, 22.5, 0.1, 21.0), "slow"), (took(0.1, 0.2, 0.1), "hung")]
)
def test_a_step_is_without_end_once_it_lasts_longer_than_pauses_did(log: str, verdict: str) -> None:
    """One call computes for 20 s every few steps."""
    facts = job(SOLVES, log, silent=30.0, runs=True, waited=26.0)
    assert bool(with_a_long_step(case_of(facts))) is (verdict == "slow")
    assert report_of(facts).verdict == verdict
