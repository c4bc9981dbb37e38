"""What happened, in order: the story of a report, and how much of a page it leaves."""

from __future__ import annotations

import io

import pytest
from log_docs import diagnosed
from rich.console import Console

from whyhang.analyzer.facts.times import before
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.markdown import render
from whyhang.analyzer.reports.terminal import show

STEP = "2026-05-04 10:0{minute}:11,201 INFO [rank{rank}] minibatch {step}/900 nll 2.71"
RAISED = """\
2026-05-04 10:04:03,412 ERROR [rank3] reader stopped
[rank3]: Traceback (most recent call last):
[rank3]:   File "/srv/app/pretrain.py", line 88, in <module>
[rank3]:     run(cfg)
[rank3]:   File "/srv/app/reader.py", line 31, in decode
[rank3]:     raise ValueError("record 77 is not a frame")
[rank3]: ValueError: record 77 is not a frame
"""
TIMED_OUT = (
    "[rank{rank}]:[E504 10:14:02.{rank}17283 ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=212, OpType=ALLREDUCE, NumelIn=4096, "
    "NumelOut=4096, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.\n"
    "[rank{rank}]:[E504 10:14:02.{rank}18283 ProcessGroupNCCL.cpp:621] [Rank {rank}] Some NCCL "
    "operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
    "subsequent GPU operations might run on corrupted/incomplete data.\n"
)


def eight_ranks() -> dict[int | None, str]:
    """Rank 3 raises at work; ten minutes later the watchdogs of the other seven give up."""
    logs: dict[int | None, str] = {}
    for rank in range(8):
        steps = [STEP.format(minute=n, rank=rank, step=n * 30) for n in range(1, 4)]
        rest = RAISED if rank == 3 else TIMED_OUT.format(rank=rank)
        logs[rank] = "\n".join(steps) + "\n" + rest
    return logs


def terminal(report: Report, width: int, *, full: bool = False) -> list[str]:
    """Return the lines of a report on a terminal of some width."""
    buffer = io.StringIO()
    show(report, Console(file=buffer, width=width, color_system=None), full=full)
    return buffer.getvalue().splitlines()


def test_events_stand_in_order_and_effects_are_counted() -> None:
    report = diagnosed(eight_ranks())
    assert report.findings[0].culprit_ranks == (3,)
    first, *later = report.story
    assert (first.seconds, first.ranks, first.finding) == (0, (3,), 0)
    watchdog = next(event for event in later if "watchdog" in event.says)
    assert watchdog.ranks == (0, 1, 2, 4, 5, 6, 7)
    assert watchdog.lines == 7
    assert watchdog.seconds == pytest.approx(600, abs=2)
    assert [e.seconds for e in report.story] == sorted(e.seconds or 0 for e in report.story)


def test_a_line_stands_on_the_page_once() -> None:
    report = diagnosed(eight_ranks())
    places = [(event.source, event.line) for event in report.story]
    assert len(places) == len(set(places))
    quoted = [p for finding in report.findings for p in finding.evidence if p.line == 4]
    text = "\n".join(terminal(report, 200, full=True))
    assert text.count("ran for 600031 milliseconds") == len({p.source for p in quoted}) > 1
    assert "\n".join(terminal(report, 200)).count("ran for 600031 milliseconds") <= 1


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_fault_of_eight_ranks_fits_on_a_page(width: int) -> None:
    report = diagnosed(eight_ranks())
    page = terminal(report, width)
    assert len(page) <= (40 if width >= 100 else 48)
    assert max(map(len, page)) <= width
    assert any("+10:0" in line or "+9:5" in line for line in page), "the time of the watchdogs"
    assert len(terminal(report, width, full=True)) > len(page)


def test_all_of_it_is_in_markdown_too() -> None:
    report = diagnosed(eight_ranks())
    assert "| time | ranks | event | read in |" in render(report)
    assert len(render(report, full=True)) > len(render(report))


def test_without_times_lines_stand_as_in_their_file() -> None:
    raised = RAISED.replace("2026-05-04 10:04:03,412 ", "")
    closed = "[rank5]: misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer"
    story = diagnosed({None: f"{raised}{closed} n7<40112>\n"}).story
    assert len(story) > 1
    assert all(event.seconds is None for event in story)
    assert [event.line for event in story] == sorted(event.line or 0 for event in story)


def test_lines_of_several_files_without_times_are_no_story() -> None:
    logs = {
        rank: text.replace("2026-05-04 10:04:03,412 ", "").replace("2026-05-04 ", "step ")
        for rank, text in eight_ranks().items()
    }
    bare = {rank: text.replace("E504 10:14:02.", "E ") for rank, text in logs.items()}
    assert diagnosed(bare).story == ()


def test_a_clock_of_its_own_gives_no_times() -> None:
    """A kernel's log without a year is months away from all else; what it says stands first."""
    kernel = "[  812.113] NVRM: Xid (PCI:0000:55:00): 79, pid=77, GPU has fallen off the bus.\n"
    story = diagnosed({**eight_ranks(), None: kernel}).story
    assert max(event.seconds or 0 for event in story) < 3600
    assert any(event.seconds is not None for event in story)


def test_who_waits_in_vain_and_why_is_not_known_is_one_finding_and_a_story() -> None:
    logs = {rank: text for rank, text in eight_ranks().items() if rank != 3}
    report = diagnosed(logs)
    page = terminal(report, 100)
    assert sum(line.startswith("2. ") for line in page) == 0
    assert len(page) <= 40


TABLE = """\
2026-05-04 10:04:03,412 ERROR [rank1] reader stopped
[rank1]: Traceback (most recent call last):
[rank1]:   File "/srv/app/reader.py", line 31, in decode
[rank1]:     raise ValueError("record 77 is not a frame")
[rank1]: ValueError: record 77 is not a frame
W0504 10:04:03.592000 17493 torch/distributed/elastic/multiprocessing/api.py:1028] \
Sending process 17505 closing signal SIGTERM
E0504 10:04:03.795000 17493 torch/distributed/elastic/multiprocessing/api.py:1002] \
failed (exitcode: 1) local_rank: 1 (pid: 17506) of binary: /opt/env/bin/python3
============================================================
pretrain.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-05-04_10:04:03
  host      : node7
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 17506)
  error_file: <N/A>
============================================================
"""


def test_an_event_of_a_whole_second_is_not_put_before_the_others_of_that_second() -> None:
    story = diagnosed({None: TABLE}).story
    seconds = [event.seconds for event in story if event.seconds is not None]
    assert len(seconds) > 1
    assert seconds == sorted(seconds)
    assert seconds[0] == 0
    assert max(seconds) < 1
    rows = [at for at, event in enumerate(story) if (event.line or 0) > 10]
    assert rows == list(range(len(story) - len(rows), len(story)))


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        (24.0, 24.5, False),
        (24.5, 24.0, False),
        (24.0, 24.0, False),
        (24.0, 25.0, True),
        (23.9, 24.0, True),
        (24.4, 24.5, True),
        (24.5, 24.5, False),
    ],
)
def test_which_of_two_events_came_first_is_known_only_outside_a_whole_second(
    first: float, second: float, known: bool
) -> None:
    assert before(first, second) is known


LONG_AFTER = """2026-05-04 09:31:00,412 INFO reader started
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/app/pretrain.py", line 55, in main
[rank0]:     dist.all_reduce(parameter.grad)
[rank0]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting \
1800000ms for recv operation to complete
"""


def test_a_line_has_the_time_above_it_only_where_the_one_below_is_not_much_later() -> None:
    """A message without a time may have been printed at any moment in between."""
    ends = TABLE[TABLE.index("W0504") :]
    story = diagnosed({None: LONG_AFTER + ends}).story
    waited = next(event for event in story if "waited in vain" in event.says)
    assert waited.seconds is None
    story = diagnosed({None: LONG_AFTER.replace("09:31:00", "10:03:59") + ends}).story
    waited = next(event for event in story if "waited in vain" in event.says)
    assert waited.seconds == 0
    ended = next(event for event in story if event.seconds)
    assert ended.seconds == pytest.approx(4, abs=1)


def test_a_rank_that_has_ended_is_not_to_be_asked() -> None:
    """What a log tells of a rank whose place nobody knows: how to find it, next time."""
    raised = """\
[rank{0}]: Traceback (most recent call last):
[rank{0}]:   File "/srv/app/pretrain.py", line 63, in <module>
[rank{0}]:     main()
[rank{0}]:   File "/srv/app/pretrain.py", line 55, in main
[rank{0}]:     dist.all_reduce(parameter.grad)
[rank{0}]:   File "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 3252, in all_reduce
[rank{0}]:     work.wait()
[rank{0}]: RuntimeError: [/pytorch/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting \
1800000ms for recv operation to complete
"""  # noqa: E501 - as torch prints it
    row = """\
[{0}]:
  time      : 2026-11-23_02:59:05
  host      : localhost
  rank      : {0} (local_rank: {0})
  exitcode  : {1} (pid: {2})
  error_file: <N/A>
"""
    table = f"{'=' * 60}\npretrain.py FAILED\n{'-' * 60}\nFailures:\n"
    table += row.format(0, -15, 1397) + row.format(2, -15, 1399) + f"{'-' * 60}\n"
    table += "Root Cause (first observed failure):\n" + row.format(1, 1, 1398) + "=" * 60
    report = diagnosed({None: raised.format(2) + raised.format(1) + table + "\n"})
    first = report.findings[0]
    assert first.culprit_ranks == (0,)
    assert not any("py-spy dump --pid" in step for step in first.next_steps)
    assert any("when it hangs again" in step for step in first.next_steps)
    assert not any("unknown place" in remedy for remedy in first.remedies)
