"""Clocks of hosts: measured by steps that all ranks end at one moment, and put right."""

import datetime as dt

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.facts import NOBODY, LogLine, Source
from whyhang.analyzer.job.inference.years import in_one_year
from whyhang.analyzer.report import Report
from whyhang.collectors.logs.text.clock import time_of

ZERO = dt.datetime(2026, 11, 21, 10, 0, 0, tzinfo=dt.timezone.utc)
LIMIT = 600


def job(ahead: tuple[int, ...], late: int | None, *, by: int = 700, drift: int = 0) -> Report:
    """Make the logs of one rank per node; all give up an all_reduce, one of them came ``by`` later.

    Clocks are ``ahead`` by so many seconds; with ``drift`` each step of a rank takes longer.
    """
    files = {}
    for rank, seconds in enumerate(ahead):
        clock = ZERO + dt.timedelta(seconds=seconds)
        text = ""
        for step in range(8):
            at = clock + dt.timedelta(seconds=10 * step + drift * rank * step)
            text += f"{at:%Y-%m-%d %H:%M:%S} INFO step {step} loss 2.{step}\n"
        ends = clock + dt.timedelta(seconds=80 + LIMIT + (by if rank == late else 0))
        text += (
            f"[rank{rank}]:[E{ends:%m%d %H:%M:%S}.100000000 ProcessGroupNCCL.cpp:632] [Rank {rank}]"
            " Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, "
            f"NumelIn=4, NumelOut=4, Timeout(ms)={LIMIT}000) ran for {LIMIT}012 milliseconds "
            "before timing out.\n"
        )
        files[f"node{rank}/rank{rank}.log"] = text
    return diagnosed_files(files)


def culprits(report: Report) -> tuple[int, ...]:
    return tuple(report.findings[0].culprit_ranks or ())


def test_who_came_late_by_clocks_that_differ() -> None:
    """A clock that is ahead makes nobody late, and one that is behind hides nobody."""
    assert culprits(job((0, 900, 0), None)) == ()
    assert culprits(job((0, 0, -650), 2)) == (2,)
    assert culprits(job((0, 900, 0), 2)) == (2,)


def test_the_report_says_which_clock_is_off() -> None:
    """The difference is told once, in seconds; that of clocks that agree is not."""
    (note,) = (note for note in job((0, 93, 0), None).notes if "Clocks" in note)

    assert "that of node1 is 93 s ahead of rank 0's" in note
    assert not [note for note in job((0, 0, 0), None).notes if "Clocks" in note]


def test_steps_that_drift_measure_no_clock() -> None:
    """Ranks that do not go in step have no moment in common."""
    assert not [note for note in job((0, 93, 0), None, drift=5).notes if "Clocks" in note]


DAY = 20_780 * 86_400  # 2026-11-23
DATED = "W1123 11:50:04.546000 16 torch/distributed/elastic/agent/server/api.py:753] Received 15 "
ZONED = "2026-11-23 11:50:05 "


@pytest.mark.parametrize(
    ("texts", "times"),
    [
        (("11:50:01 ", "[11:50:03] ", DATED, ZONED), [42601, 42603]),
        (("11:50:01 ", "11:50:03 "), [None, None]),  # of a day that nobody tells
        (("00:00:01 ", "00:00:03 ", ZONED), [None, None]),  # since the start, maybe
        (("23:59:59 ", "00:10:03 ", ZONED), [None, None]),  # midnight between them
        (("took 11:50:01 ", "11:50:03it ", ZONED), [None, None]),
    ],
)
def test_times_of_a_day_that_another_line_tells(
    texts: tuple[str, ...], times: list[float | None]
) -> None:
    """A time without a date counts where the same file has one."""
    source = Source(file="job.log", line=1)
    lines = [
        LogLine(who=NOBODY, source=source, text=text, time=time_of(text, None)) for text in texts
    ]
    told = [line.time for line in in_one_year(lines) if isinstance(line, LogLine)]
    assert [time and time - DAY for time in told[:2]] == times
