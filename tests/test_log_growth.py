"""Steps that a log counts while its job is looked at."""

import pytest
from small_jobs import ALL_REDUCE, report_of, still

from whyhang.analyzer.facts import Excerpt, Source, StepsWritten, StepsWrittenBefore, Who
from whyhang.collectors.live.probes.log_growth import further_step

BAR = b"train:  %d%%|##   | %d/400 [00:13<07:10]\r"


@pytest.mark.parametrize(
    ("written", "new", "step"),
    [
        (b"step 3 loss 0.2\nstep 4 loss 0.2\n", b"step 5 loss 0.1\n", "step 5 loss 0.1"),
        (b"[epoch 1] iter 20\n", b"saved\n[epoch 1] iter 30\n", "[epoch 1] iter 30"),
        (b"step 1\nstep 1\n", b"stepstep  22\n\n", "stepstep  22"),
        (BAR % (3, 12), BAR % (4, 16), "train:  4%|##   | 16/400 [00:13<07:10]"),
        (b"eval 12/400\n", b"eval 13/400\n", "eval 13/400"),
        (b"round 0: 11/40 labels\n", b"round 0: 12/40 labels\n", "round 0: 12/40 labels"),
        (
            b"merged 800 rows, kept 400\n",
            b"merged 900 rows, kept 450\n",
            "merged 900 rows, kept 450",
        ),
        (b"[rank0] scored 7 of 90\n", b"[rank0] scored 9 of 90\n", "[rank0] scored 9 of 90"),
    ],
    ids=[
        *("a step", "beside an epoch", "written into each other", "a bar", "of many", "of things"),
        *("what is done", "in words"),
    ],
)
def test_a_further_step_is_seen(written: bytes, new: bytes, step: str) -> None:
    """Its number does not stand in what was written before."""
    assert further_step(written, new) == step


@pytest.mark.parametrize(
    ("written", "new"),
    [
        (b"step 3\nstep 4\n", b"step 4 loss 0.1\n"),
        (b"step 4\n", b"still waiting for step 5, 60 s\n"),
        (b"step 4\n", b"watchdog: no step since 05:00:50\n"),
        (b"loading\n", b"epoch 1 begins\n"),
        (BAR % (3, 12), BAR % (3, 12)),
        (b"step 4\n", b""),
        (b"attempt 3/10\n", b"attempt 4/10 in 8 s\n"),
        (b"rank 0/4 is up\n", b"rank 1/4 is up\n"),
        (b"2/4 ranks are up\n", b"3/4 ranks are up\n"),
        (b"on 11/21/2026\n", b"on 11/22/2026\n"),
        (b"step 4\nheld 40/80 GiB\n", b"held 41/80 GiB\n"),
        (b"step 4\nelapsed 60/600\n", b"elapsed 120/600\n"),
        (b"step 4\nsaved 9/9\n", b"opened 1/2\n"),
        (b"open files 12/400\n", b"open files 11/400\n"),
        (b"idled 12 minutes\nretried 3 requests\n", b"idled 13 minutes\nretried 4 requests\n"),
    ],
    ids=[
        *("the same", "waits", "a watchdog", "the first", "the bar again", "nothing"),
        *(
            "attempts",
            "ranks",
            "numbers of ranks",
            "dates",
            "memory",
            "time",
            "another count",
            "fewer",
            "in vain",
        ),
    ],
)
def test_other_lines_are_no_steps(written: bytes, new: bytes) -> None:
    """What is said of a hang may repeat the number of its step, and count the time."""
    assert further_step(written, new) is None


def test_a_job_that_writes_steps_goes_on() -> None:
    """Its ranks are asleep at every look, between two short collectives."""
    asleep = still(dict.fromkeys(range(2), "main (train.py:7)"))
    steps = StepsWritten(text="step 5", who=Who(), source=Source(file="train.log"))

    assert report_of(asleep).verdict != "healthy"
    assert report_of([*asleep, steps]).verdict == "healthy"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [("", "healthy"), ("read (socket.py:718)\n", "inconclusive")],
    ids=["asleep", "elsewhere"],
)
def test_steps_that_were_written_before_count_for_jobs_that_sleep(last: str, verdict: str) -> None:
    """Rounds may be far from each other; a job that has come to its hang meanwhile is in one."""
    nap = "main (train.py:7)\n<module> (train.py:9)"
    ranks = still(dict.fromkeys(range(2), f"{last}{nap}"))
    before = StepsWrittenBefore(text="round 5", who=Who(), source=Source(file="train.log"))
    text = Excerpt(file="train.py", first_line=7, lines=("    time.sleep(20)",))

    assert (report_of([*ranks, text, before]).verdict == "healthy") is (verdict == "healthy")


@pytest.mark.parametrize(("rounds", "hangs"), [(1, True), (2, False)])
def test_a_rank_that_counts_between_its_naps_goes_on(rounds: int, *, hangs: bool) -> None:
    """Others wait for it meanwhile; one step alone may have been the last."""
    nap = "fetch (train.py:7)\n<module> (train.py:9)"
    written = [
        StepsWrittenBefore(text=f"label {number}/40", who=Who(), source=Source(file="train.log"))
        for number in range(rounds)
    ]
    text = Excerpt(file="train.py", first_line=7, lines=("    time.sleep(20)",))

    report = report_of([*still({0: ALL_REDUCE, 1: nap}), text, *written])

    assert (report.verdict == "hung") is hangs
