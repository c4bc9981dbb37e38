"""In which step of its loops each rank is, where all stand in collectives."""

from __future__ import annotations

import ast
import json

import pytest
from small_jobs import ALL_REDUCE, BARRIER, ELSEWHERE, in_steps

from whyhang.analyzer.facts import Excerpt, LoopCounter, Who
from whyhang.collectors.live.call_arguments import counts_of_loops
from whyhang.collectors.live.frame_variables import read_counters


def test_the_rank_in_another_step_is_named() -> None:
    """All stand in one line; one has counted further, so it skipped a call before."""
    report = in_steps({0: "i=9", 1: "i=9", 2: "i=10", 3: "i=9"})

    assert report.findings[0].category == "collective-mismatch"
    assert report.findings[0].culprit_ranks == (2,)
    assert "rank 2 at i=10, ranks 0-1,3 at i=9" in report.headline


def test_counters_that_agree_say_nothing() -> None:
    """Everyone is in the same step: the cause is below the program, or not seen."""
    report = in_steps({0: "i=9 epoch=1", 1: "i=9 epoch=1"})

    assert all(f.category != "collective-mismatch" for f in report.findings)


def test_of_two_ranks_in_two_steps_neither_is_blamed() -> None:
    """Who of two is off cannot be told, only that they are."""
    finding = in_steps({0: "step=4", 1: "step=5"}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", None)


@pytest.mark.parametrize(
    "steps",
    [
        {0: "i=6", 1: "i=7"},  # range(rank, end, world)
        {0: "i=9", 1: "i=4", 2: "i=30"},  # each counts something of its own
        {0: "i=9", 1: "", 2: "i=10"},  # not known of all
    ],
)
def test_what_ranks_count_of_their_own_is_no_step(steps: dict[int, str]) -> None:
    """Shares of the data by rank, and counters without a pattern, accuse nobody."""
    assert all(f.category != "collective-mismatch" for f in in_steps(steps).findings)


def test_counters_of_ranks_elsewhere_do_not_speak() -> None:
    """A rank that is late stands in an earlier step by nature."""
    stacks = {0: ALL_REDUCE, 1: ELSEWHERE, 2: ALL_REDUCE}
    finding = in_steps({0: "i=9", 1: "i=8", 2: "i=9"}, stacks).findings[0]

    assert finding.category == "missing-rank-in-collective"


def test_two_operations_and_two_steps_are_one_story() -> None:
    """The rank that is a step further is in another collective, too: it is named once."""
    stacks = {0: ALL_REDUCE, 1: BARRIER, 2: ALL_REDUCE}
    findings = in_steps({0: "i=9", 1: "i=10", 2: "i=9"}, stacks).findings

    causes = [(f.signature, f.culprit_ranks) for f in findings if f.caused_by is None]
    assert causes == [("in-another-step", (1,))]


def test_who_left_a_gather_early_is_ahead_by_right() -> None:
    """Whoever is not its root is through once it has handed over its part."""
    gather = ALL_REDUCE.replace("all_reduce", "gather")
    stacks = {0: gather, 1: gather, 2: BARRIER}
    findings = in_steps({0: "i=9", 1: "i=9", 2: "i=10"}, stacks).findings

    assert all(f.signature != "in-another-step" for f in findings)


@pytest.mark.parametrize(("epoch", "category"), [(4, "collective-mismatch"), (3, "uneven-inputs")])
def test_who_is_back_in_the_loop_has_not_stayed_in_it(epoch: int, category: str) -> None:
    """Rank 1 left the barrier behind its batches out, or has one batch more: its epoch tells."""
    inside = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:40)")
    loops = (
        "    for epoch in range(9):",
        "        for batch in loader:",
        "            step(batch)",
    )
    source = (
        Excerpt(file="train.py", first_line=38, lines=loops),
        Excerpt(file="train.py", first_line=55, lines=("        dist.barrier()",)),
    )
    counts = {rank: f"epoch@main={epoch if rank == 1 else 3}" for rank in range(3)}

    finding = in_steps(counts, {0: BARRIER, 1: inside, 2: BARRIER}, *source).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, (1,))


@pytest.mark.parametrize(
    ("loop", "skips", "category"),
    [
        ("for batch in loader:", (), "uneven-inputs"),
        ("for i, batch in enumerate(loader):", (), "uneven-inputs"),
        ("for batch in loader:", ("            if bad(batch):", "                continue"), None),
        ("for name, parameter in model.named_parameters():", (), None),
    ],
)
def test_who_is_an_epoch_ahead_of_those_among_their_batches_had_fewer(
    loop: str, skips: tuple[str, ...], category: str | None
) -> None:
    """All stand in gradients; where batches may be skipped, a call was left out."""
    loops = ("    for epoch in range(9):", f"        {loop}", *skips)
    inside = ALL_REDUCE.replace("train (train.py:40)", "main (train.py:45)")
    fill = ("            step(batch)",) * (46 - 38 - len(loops))
    source = Excerpt(file="train.py", first_line=38, lines=(*loops, *fill))
    counts = dict.fromkeys(range(3), "epoch@main=3 i@main=60")
    counts[1] = "epoch@main=4 i@main=0"

    finding = in_steps(counts, dict.fromkeys(range(3), inside), source).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category or "collective-mismatch", (1,))
    assert ("end of a loop over data first" in finding.title) is (category is not None)
    way = "What may lead past the call at main (train.py:45): `if bad(batch)` (train.py:40)"
    assert (way in finding.explanation) is bool(skips)


@pytest.mark.parametrize(
    ("op", "steps", "culprits"),
    [("gather", "10", (2,)), ("gather", "9", None), ("all_gather", "10", None)],
)
def test_who_has_gone_on_has_come_past_the_call_that_has_a_root(
    op: str, steps: str, culprits: tuple[int, ...] | None
) -> None:
    """Nobody leaves a barrier before rank 0 has come; so ranks 1 and 3 took the gather's way."""
    gather = ALL_REDUCE.replace("all_reduce", op)
    stacks = {0: gather, 1: ALL_REDUCE, 2: BARRIER, 3: ALL_REDUCE}
    counts = {0: "step=9", 1: f"step={steps}", 2: "step=9", 3: f"step={steps}"}
    findings = in_steps(counts, stacks).findings

    (finding,) = [f for f in findings if f.signature == "collective-mismatch"]
    assert finding.culprit_ranks == culprits


RECV = """
recv (torch/distributed/distributed_c10d.py:2400)
wrapper (torch/distributed/c10d_logger.py:83)
train (train.py:38)
<module> (train.py:60)
"""


def test_a_stage_may_be_a_step_ahead_of_the_next() -> None:
    """Who waits for a message is held up by its partner, whatever it has counted."""
    findings = in_steps({0: "i=9", 1: "i=8", 2: "i=8"}, dict.fromkeys(range(3), RECV)).findings

    assert all(f.signature != "in-another-step" and not f.culprit_ranks for f in findings)


PIPELINE = """
_wait_batch_p2p (torch/distributed/pipelining/schedules.py:120)
train (train.py:38)
<module> (train.py:60)
"""


@pytest.mark.parametrize(
    ("stack", "says"),
    [
        (RECV, "Rank 2 waits to receive, and no rank sends: ranks 0-1 are in barrier"),
        (PIPELINE, "Rank 2 waits in the pipeline's sends and receives, and no other rank"),
    ],
)
def test_who_waits_for_a_message_was_left_behind(stack: str, says: str) -> None:
    """The rank in an earlier step waits for one that has gone on: it has skipped nothing."""
    stacks = {0: BARRIER, 1: BARRIER, 2: stack}
    finding = in_steps({0: "i=9", 1: "i=9", 2: "i=2"}, stacks).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", None)
    assert finding.title.startswith(says)


def test_only_steps_are_kept_of_the_variables() -> None:
    """Whole numbers with the name of a step, in the user's own frames of the main thread."""
    variables = {
        "epoch": "3",
        "batch_idx": "17",
        "password": "1234",
        "batch_size": "8",
        "best_epoch": "2",
        "step": "'four'",
        "i": "-1",
    }
    frame = {
        "name": "train",
        "filename": "/home/me/train.py",
        "line": 4,
        "locals": [{"name": name, "repr": value} for name, value in variables.items()],
    }
    library = {**frame, "filename": "/usr/lib/python3/site-packages/torch/x.py"}
    data = json.dumps(
        [
            {"pid": 7, "os_thread_id": 8, "frames": [frame]},
            {"pid": 7, "os_thread_id": 7, "frames": [library, frame]},
        ]
    ).encode()

    *counters, _ = read_counters(Who(pid=7), data)

    assert [(c.name, c.value) for c in counters if isinstance(c, LoopCounter)] == [
        ("epoch", 3),
        ("batch_idx", 17),
    ]
    assert {(c.function, c.file) for c in counters if isinstance(c, LoopCounter)} == {
        ("train", "me/train.py")
    }


COUNTED = """\
def train(loader):
    for n, batch in enumerate(loader):
        while tries < 3:
            tries += 1
            step(batch)
        for rank in ranks:
            send(rank)
    for later in range(9):
        step(later)
"""


@pytest.mark.parametrize(
    ("line", "names"), [(5, {"n", "tries"}), (7, {"n"}), (9, {"later"}), (99, set())]
)
def test_what_the_loops_around_a_line_count_with(line: int, names: set[str]) -> None:
    """Their turns, whatever the name; not the items that are gone through."""
    assert counts_of_loops(ast.parse(COUNTED), line) == names


def test_the_count_of_a_loop_counts_whatever_its_name() -> None:
    """Other whole numbers of the frame may be anything."""
    locals_ = [{"name": name, "repr": "7"} for name in ("n", "size")]
    frame = {"name": "f", "filename": "/me/t.py", "line": 4, "locals": locals_}
    data = json.dumps([{"pid": 7, "os_thread_id": 7, "frames": [frame]}]).encode()

    counters = read_counters(Who(pid=7), data, lambda *_: {"n"})

    assert [c.name for c in counters if isinstance(c, LoopCounter)] == ["n"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"frames": 3}]'])
def test_what_cannot_be_read_counts_nothing(data: bytes) -> None:
    """Whatever py-spy prints, nothing is lost but the counters."""
    assert list(read_counters(Who(pid=7), data)) == []


def test_a_step_that_is_handed_on_to_a_function_counts_once() -> None:
    """The loop and what it calls both know the step, by one name."""
    report = in_steps({0: "step=4 step@fit=4", 1: "step=5 step@fit=5"})

    assert "rank 0 at step=4, rank 1 at step=5" in report.headline
