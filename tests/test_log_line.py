"""The anatomy of a line: speaker, time and text, whatever is wrapped around it."""

from __future__ import annotations

import pytest

from whyhang.analyzer.facts import NOBODY, Trust, Who
from whyhang.collectors.logs.text.clock import time_of, year_of
from whyhang.collectors.logs.text.line import Voice, clean, take_apart
from whyhang.collectors.logs.text.voice import voice_of

PLAIN = Voice(year=2024)
HEADER = "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:632] "


@pytest.mark.parametrize(
    ("line", "who", "text"),
    [
        (f"[rank3]:{HEADER}[Rank 1] x", Who(rank=3, trust=Trust.PREFIX), f"{HEADER}[Rank 1] x"),
        ("[default3]:[rank11]: y", Who(rank=11, trust=Trust.PREFIX, local_rank=3), "y"),
        (
            "[gpu-a7:5283 :0:5704] Caught signal 11 (Segmentation fault)",
            Who(host="gpu-a7", pid=5283),
            "[gpu-a7:5283 :0:5704] Caught signal 11 (Segmentation fault)",
        ),
        ("[12:30:5704] step 7", NOBODY, "[12:30:5704] step 7"),
        ("[1,3]<stderr>:oops", Who(rank=3, trust=Trust.PREFIX), "oops"),
        (
            "(RayTrainWorker pid=77, ip=10.1.2.3) [rank4]: z",
            Who(rank=4, trust=Trust.PREFIX, pid=77, host="10.1.2.3", label="RayTrainWorker"),
            "z",
        ),
        (
            "2023-10-06T00:17:09.669794202Z stderr F [rank1]: Traceback",
            Who(rank=1, trust=Trust.PREFIX),
            "Traceback",
        ),
        (
            "[2024-05-01 10:00:00,123] [rank2]: late prefix",
            Who(rank=2, trust=Trust.PREFIX),
            "late prefix",
        ),
        (
            "[2022-05-31T14:29:44.163901Z] dc5b74e6 [rank=2] || Fatal Python error: Aborted",
            Who(rank=2, trust=Trust.PREFIX),
            "Fatal Python error: Aborted",
        ),
        ("[12345.678901] NVRM: Xid", NOBODY, "NVRM: Xid"),
        ("<6>[Tue Jul  1 13:06:53 2026] NVRM: Xid", NOBODY, "NVRM: Xid"),
        ("Jul  1 13:06:53 gpu12 kernel: [1.123456] NVRM: Xid", Who(host="gpu12"), "NVRM: Xid"),
        ("2026-07-01T13:06:53.1+00:00 gpu12.lab kernel: NVRM", Who(host="gpu12"), "NVRM"),
        ("worker-1  | hello", Who(label="worker-1"), "hello"),
        (
            "[2025-07-04 11:02:33] node7:4711:4802 [3] misc/socket.cc:58 NCCL WARN w",
            Who(host="node7", pid=4711),
            "[2025-07-04 11:02:33] node7:4711:4802 [3] misc/socket.cc:58 NCCL WARN w",
        ),
        (
            "W1120 23:12:14.630000 28781 torch/distributed/run.py:874] x",
            Who(pid=28781),
            "W1120 23:12:14.630000 28781 torch/distributed/run.py:874] x",
        ),
        (
            "[2026-02-27 15:27:13 TP11] Scheduler hit an exception",
            Who(label="TP11"),
            "[2026-02-27 15:27:13 TP11] Scheduler hit an exception",
        ),
        (
            '{"log":"[rank0]: \\u001b[31mred \\"quote\\"\\u001b[0m\\n","stream":"stderr"}',
            Who(rank=0, trust=Trust.PREFIX),
            'red "quote"',
        ),
        ("\x1b[31m[rank5]: red\x1b[0m", Who(rank=5, trust=Trust.PREFIX), "red"),
    ],
)
def test_speaker_and_text_of_a_line(line: str, who: Who, text: str) -> None:
    """Wrappings of launchers, containers, journals and kernels come off; headers stay."""
    (piece,) = take_apart(clean(line.encode()), PLAIN)

    assert (piece.who, piece.text) == (who, text)


@pytest.mark.parametrize(
    ("line", "trust"),
    [
        ("[E ProcessGroupNCCL.cpp:821] [Rank 5] Watchdog caught collective operation", "INFERRED"),
        ("[Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1", "INFERRED"),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 5] failure detected by watchdog", "INFERRED"),
        ("[5] is setting up NCCL communicator and retrieving ncclUniqueId", "INFERRED"),
        ("[Rank 5] loading shard", "PREFIX"),
    ],
)
def test_a_rank_within_a_group_is_only_believed_for_want_of_better(line: str, trust: str) -> None:
    """The watchdog's "[Rank 5]" is no prefix; a program's own is."""
    (piece,) = take_apart(line, PLAIN)

    assert (piece.who.rank, piece.who.trust.name) == (5, trust)


def test_the_rank_of_another_group_is_no_rank() -> None:
    """Within a group that is not the default one, the number says nothing."""
    (piece,) = take_apart("[PG ID 2 PG GUID 5(tp) Rank 1] failure detected by watchdog", PLAIN)

    assert piece.who.rank is None


def test_the_file_name_speaks_where_the_line_does_not() -> None:
    """A prefix beats the name of the file, the name beats what the watchdog says."""
    voice = Voice(who=Who(rank=7, trust=Trust.FILE_NAME))
    says = "[E ProcessGroupNCCL.cpp:821] [Rank 5] Watchdog caught collective operation"

    assert take_apart("hello", voice)[0].who.rank == 7
    assert take_apart(says, voice)[0].who.rank == 7
    assert take_apart("[rank2]: hello", voice)[0].who.rank == 2


def test_lines_written_into_each_other_are_separated() -> None:
    """A prefix in the middle begins another line, by another speaker."""
    bar = "Epoch 10: 240it [05:55, loss=5.46]"
    first, second = take_apart(f"{bar}[rank0]:{HEADER}[Rank 0] Watchdog", PLAIN)
    one, two = take_apart("[rank1]: abc[rank2]: def", PLAIN)
    info = "n1:10:11 [0] NCCL INFO Channeln2:20:21 [1] NCCL INFO Trees"

    assert (first.text, first.who) == (bar, NOBODY)
    assert (second.who.rank, second.text) == (0, f"{HEADER}[Rank 0] Watchdog")
    assert [(one.who.rank, one.text), (two.who.rank, two.text)] == [(1, "abc"), (2, "def")]
    assert [line.who.pid for line in take_apart(info, PLAIN)] == [10, 20]


@pytest.mark.parametrize(
    ("head", "line", "rank"),
    [
        ("0: a\n1: b\n2: c\n", "2: Killed", 2),
        ("0: a\n1: b\nplain\nplain\n", "2: Killed", None),
        ("0: [rank0]: a\n1: [rank8]: b\n0: [rank1]: c\n", "1: Killed", None),
        ("0: torch/distributed/run.py:1] x\n1: y\n", "1: Killed", None),
    ],
)
def test_numbers_of_srun(head: str, line: str, rank: int | None) -> None:
    """A number in front of every line is a rank, unless it counts nodes."""
    voice = voice_of(head.encode(), NOBODY)

    assert take_apart(line, voice)[0].who.rank == rank


@pytest.mark.parametrize(
    ("line", "time"),
    [
        (f"[rank3]:{HEADER}", 1733510656.0),
        ("[E126 18:44:16.997991020 x.cpp:1]", 1706294656.0),
        ("E0607 16:18:58.085681 544067 ProcessGroupNCCL.cpp:344]", 1717777138.085681),
        ("W1120 23:12:14.630000 28781 torch/run.py:874]", 1732144334.63),
        ("2024-06-07 12:00:00,123 - INFO - x", 1717761600.123),
        ("2024-06-07T12:00:00.5Z x", 1717761600.5),
        ("2024-06-07T14:00:00+02:00 x", 1717761600.0),
        ("2024-06-07T10:00:00-0200 x", 1717761600.0),
        ("06/07/2024 12:00:00 - INFO", 1717761600.0),
        ("Jun  7 12:00:00 host kernel:", 1717761600.0),
        ("[Fri Jun  7 12:00:00 2024] NVRM", 1717761600.0),
        ("INFO 06-07 12:00:00 [worker.py:1]", 1717761600.0),
        ("2024-13-45 99:00:00 no date", None),
        ("loss 3.2 at step 7", None),
    ],
)
def test_times(line: str, time: float | None) -> None:
    """Every usual shape is read; the monotonic fraction of torch's header is dropped."""
    assert time_of(line, 2024) == (None if time is None else pytest.approx(time))


def test_years() -> None:
    """A year comes from the file, then from when it was taken."""
    assert year_of("x\n2023-01-02 03:04:05 y") == 2023
    assert voice_of(b"no date", NOBODY, 1717761600.0).year == 2024
    assert voice_of(b"2021-01-02 03:04:05", NOBODY, 1717761600.0).year == 2021


def test_a_number_in_a_files_name_is_no_rank_where_others_speak() -> None:
    """worker2.log of a node with four ranks is the log of none of them."""
    worker = Who(rank=2, trust=Trust.INFERRED, label="worker2")
    line = "[E ProcessGroupNCCL.cpp:481] [Rank {}] Watchdog caught collective operation timeout"
    several = "\n".join(line.format(rank) for rank in (8, 9, 10, 11)).encode()

    assert voice_of(several, worker).who.rank is None
    assert voice_of(several + b"\n" + line.format(2).encode(), worker).who.rank == 2
    assert voice_of(several, Who(rank=2, trust=Trust.FILE_NAME)).who.rank == 2


@pytest.mark.parametrize(
    "line",
    [
        "[2024-03-01 10:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 3] step=10",
        "[11/20/2024-06:30:10] [TRT-LLM] [RANK 3] [I] loading weights",
        "2024-03-01 10:00:00 | INFO | rank=3 | loaded",
        "2024:03:01-10:00:00:(123) |CCL_ERROR| rank 3: timeout",
        "INFO 03-04 10:00:00 [rank 3] hello",
    ],
)
def test_a_rank_in_the_header_of_a_logger(line: str) -> None:
    """Frameworks name the speaker among times, levels and places."""
    (piece,) = take_apart(line, PLAIN)

    assert (piece.who.rank, piece.who.trust) == (3, Trust.PREFIX)


@pytest.mark.parametrize(
    "line",
    [
        "[INFO] waiting for rank 3: timeout",
        "[WARNING] rank: 3 did not come",
        "[INFO] [Rank 3 of 8] is what others are",
        "[ERROR] HCCL(1234,python):2024-03-01-10:00:00 [x.cc:12][1234]remote rank:[3] timeout",
        "[PG ID 2 PG GUID 7(tp) Rank 3] ProcessGroupNCCL preparing",
        "[NeMo I 2024-03-01 10:00:00 x:12] Rank 3 has data parallel group [0, 1]",
    ],
)
def test_a_rank_that_is_spoken_of_does_not_speak(line: str) -> None:
    """Words about a rank, a peer, or a place within a group are no label."""
    (piece,) = take_apart(line, PLAIN)

    assert piece.who.rank is None
