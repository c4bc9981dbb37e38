"""Ranks that a program names in words of its own: who speaks, who differs, who is absent."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, read_log
from small_jobs import report_of, still

from whyhang.analyzer.report import Finding
from whyhang.collectors.logs.text.line import Voice, take_apart


def first(text: str, name: str = "job.log") -> Finding | None:
    """Return what comes first in the diagnosis of one log."""
    return next(iter(diagnosed_files({name: text}).findings), None)


SIZES = "".join(
    f"    # Rank {rank} buffer before sum: torch.Size([{4096 if rank != 3 else 512}]) 1.0\n"
    for rank in (2, 0, 3, 1)
)
BATCHES = "".join(f"rank = {rank}, batches {7 if rank == 1 else 9}\n" for rank in range(5))
TABLE = "Length of the train loader on each:\n\n" + "".join(
    f"- rank{rank}: {2500 if rank else 3100}\n" for rank in range(4)
)


STARTS = "".join(
    f"[rank{rank}]: resuming from step {step if rank != 2 else step - 100}\n"
    for step in (100, 500)  # of two starts the last one counts
    for rank in range(4)
)
GAVE_UP = (
    "[rank0]: [E ProcessGroupNCCL.cpp:474] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=119, OpType=ALLREDUCE, NumelIn=26, NumelOut=26, Timeout(ms)=600000) ran for "
    "600123 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(
    ("text", "category", "odd"),
    [
        (SIZES, "collective-mismatch", 3),
        (BATCHES, "uneven-inputs", 1),
        (TABLE, "uneven-inputs", 0),
        (STARTS + GAVE_UP, "uneven-inputs", 2),
    ],
    ids=["sizes", "batches", "table", "starts"],
)
def test_the_odd_value(text: str, category: str, odd: int) -> None:
    """One rank prints another value than all others."""
    finding = first(text)

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == (category, (odd,))


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"rank = {rank}, batches {7 + rank}\n" for rank in range(5)),
        "Batches of rank 0 are 9. Rank 1 reads 7 of them. Rank 2 is fine with 9.\n",
        BATCHES + "".join(f"rank = {rank}, step {step}\n" for step in (1, 2) for rank in range(5)),
        "rank = 0, batches 9\nrank = 1, batches 7\n",
        # steps of a loop, and a rank whose last line is missing
        "".join(f"[rank{r}]: from step {s}\n" for s in range(9) for r in range(4)) + GAVE_UP,
        "".join(
            f"[rank{rank}]: resuming from step {step}\n"
            for step in (100, 500)
            for rank in range(4)
            if (step, rank) != (500, 3)
        )
        + GAVE_UP,
    ],
    ids=["each its own", "prose", "goes on", "of two", "steps", "a start is cut off"],
)
def test_values_that_say_nothing(text: str) -> None:
    """Values of each rank, of two, of a job that goes on, and words about ranks name nobody."""
    finding = first(text)

    assert finding is None or not finding.culprit_ranks


LISTS = {
    "fetch": "".join(f"rank {rank}, fetch sample {rank * 31 % 17}\n" for rank in (4, 0, 2, 1, 5)),
    "labels": "".join(f"[rank{rank}]: entering warm-up\n" for rank in (0, 1, 2, 4)),
    "logger": "".join(
        f"2031-02-01 10:00:0{rank} INFO:trainer.loop:[Rank {rank}] compiled the graph\n"
        for rank in (1, 2, 3, 5, 6, 7, 0)
    ),
    "conductor": "".join(
        [f"rank 0: sent weights to rank {rank}\n" for rank in (1, 2, 3)]
        + [f"rank {rank}: ready\n" for rank in (1, 3)]
        + ["rank 0: waiting for all ready\n"]
    ),
}


@pytest.mark.parametrize(
    ("name", "absent"), [("fetch", 3), ("labels", 3), ("logger", 4), ("conductor", 2)]
)
def test_who_is_absent_from_a_list(name: str, absent: int) -> None:
    """The number that no line begins with has not come there."""
    finding = first(LISTS[name])

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("absent-from-lines", (absent,))


@pytest.mark.parametrize(
    "text",
    [
        "loading\n" + "".join(f"[rank{rank}]: entering warm-up\n" for rank in (1, 2, 3)),
        "".join(f"[rank{rank}]: entering warm-up\n" for rank in (0, 2, 4, 6)),
        "".join(
            f"[rank{rank}]: part {name}\n" for rank, name in zip((0, 1, 3), "abc", strict=True)
        ),
        "".join(f"[rank{rank}]: step 4 loss 0.2\n" for rank in (0, 1, 3)),
    ],
    ids=["rank 0 has no label", "every other", "no common line", "at work"],
)
def test_lists_that_name_nobody(text: str) -> None:
    """Rank 0 that prints for all, parts of a group, lines of their own, a job at work."""
    finding = first(text)

    assert finding is None or not finding.culprit_ranks


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[2031-02-01 10:00:00] CRITICAL [lib.util:158, rank=6] disk full: OSError: x", 6),
        ("PolicyWorker[rank=5]: RuntimeError: no kernel image is available", 5),
        ("10:00:00 ERROR:serve.engine:[Rank 2] RuntimeError: no kernel image", 2),
    ],
)
def test_a_rank_within_a_header(line: str, rank: int) -> None:
    """The header of a logger, or the name of a worker, holds the rank."""
    assert take_apart(line, Voice())[0].who.rank == rank


def test_a_message_on_the_line_below() -> None:
    """A line that ends open hands its speaker to the next; a whole one does not."""
    text = "CUDA error: uncorrectable ECC error encountered\n"
    header = "[rank1]:[E810 15:36:05.945860779 ProcessGroupNCCL.cpp:1899] [PG ID 0 Rank 1]\n"
    opened, whole = first(header + text), first("[rank1]: saved the model\n" + text)

    assert opened is not None
    assert opened.culprit_ranks == (1,)
    assert whole is None or not whole.culprit_ranks


@pytest.mark.parametrize("others", ["", "rank 1: skipped nothing\nrank 3: skipped nothing\n"])
def test_the_only_line_with_a_rank_is_told_of_that_rank(others: str) -> None:
    """A program that prints no labels warns of one rank; a line of each tells nothing of one."""
    stacks = dict.fromkeys((0, 1, 3), "all_reduce (torch/distributed/distributed_c10d.py:3100)\n")
    stacks[2] = "barrier (torch/distributed/distributed_c10d.py:4100)\n"
    stacks = {rank: f"{call}main (train.py:{len(call)})\n" for rank, call in stacks.items()}
    said = f"epoch 0 took 4 s\n{others}12:00:03 WARNING rank 2: skipped a torn file of the shard\n"
    finding = report_of([*still(stacks), *read_log(said)]).findings[0]

    assert finding.culprit_ranks == (2,)
    assert ("Only rank 2 has printed" in finding.explanation) is (others == "")


TIMED_OUT = (
    "[rank{0}]:[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        ("cache of 3 is torn, begins anew\n", True),
        ("cache of 3 is torn, begins anew\nold\nnew\nanother\n", False),  # has a part of its own
    ],
)
def test_what_only_the_culprit_has_printed_is_told(printed: str, told: bool) -> None:
    """What led a rank another way may stand in its own words."""
    logs = {f"rank{rank}.log": "resumes from step 14\nepoch 3 begins\n" for rank in range(4)}
    logs = {
        name: text + (printed if name == "rank3.log" else TIMED_OUT.format(name[4]))
        for name, text in logs.items()
    }
    finding = diagnosed_files(logs).findings[0]

    assert finding.culprit_ranks == (3,)
    assert ("Only rank 3 has printed 'cache of 3 is torn" in finding.explanation) is told
