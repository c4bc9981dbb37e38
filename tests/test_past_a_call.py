"""Ranks that have come past the call of the others, or round to the one before it again."""

from __future__ import annotations

import pytest
from small_jobs import report_of, still

from whyhang.analyzer.facts import Excerpt, StackDump, replace
from whyhang.analyzer.report import Finding

GATHER = "all_gather (torch/distributed/distributed_c10d.py:3100)\n"
REDUCE = "all_reduce (torch/distributed/distributed_c10d.py:3200)\n"
REDUCER = "c10d::Reducer::finalize_backward (libtorch_cpu.so:1)\nbackward (torch/_tensor.py:9)\n"
RECV = "Recv (mpi4py/MPI.so:1)\n"
SUM = "Allreduce (mpi4py/MPI.so:1)\n"
JOIN = "wait (threading.py:9)\njoin (queue.py:90)\n"


def first(stacks: dict[int, str], source: str) -> Finding:
    """Return what comes first of ranks that stand in this source."""
    text = Excerpt(file="job.py", first_line=1, lines=tuple(source.strip("\n").split("\n")))
    facts = [
        replace(
            fact,
            threads=tuple(
                replace(
                    thread,
                    frames=tuple(
                        replace(f, native="::" in f.function or f.file.endswith(".so"))
                        for f in thread.frames
                    ),
                )
                for thread in fact.threads
            ),
        )
        if isinstance(fact, StackDump)
        else fact
        for fact in still(stacks)
    ]
    return report_of([*facts, text]).findings[0]


STEP = """
def main():
    for step, batch in enumerate(loader):
        loss = model(batch)
        loss.backward()
        {turn}
            dist.all_gather(out, loss)
    dist.all_gather(out, loss)
"""


@pytest.mark.parametrize(
    ("turn", "line", "signature"),
    [
        ("with timer:", 6, "gradients-not-reduced"),
        ("if loss > best:", 6, "collective-mismatch"),
        ("with timer:", 7, "uneven-inputs"),
    ],
    ids=["in the turn", "by its own condition", "behind the loop"],
)
def test_a_backward_that_left_gradients_out(turn: str, line: int, signature: str) -> None:
    """Who is past the backward of the others in one turn has come through it without reducing."""
    stacks = dict.fromkeys((0, 2), f"{REDUCER}main (job.py:4)") | {
        1: f"{GATHER}main (job.py:{line})"
    }

    finding = first(stacks, STEP.format(turn=turn))

    assert (finding.signature, finding.culprit_ranks) == (signature, (1,))
    assert (finding.category == "unused-parameters") is (signature == "gradients-not-reduced")


APPEND = """
def append(rows):
    counts = dist.all_gather(len(rows))
    {early}
    dist.all_reduce(rows)
def main():
    for chunk in chunks:
        append(chunk)
"""


@pytest.mark.parametrize("returns", [True, False])
def test_who_is_at_the_first_call_again_has_left_out_the_second(*, returns: bool) -> None:
    """Of two and two the numbers tell nothing; a return in between does."""
    early = "if not len(rows): return" if returns else "rows = pad(rows)"
    early = early.replace(": ", ":\n        ")
    main = f"main (job.py:{7 + returns})"
    stacks = dict.fromkeys((0, 1), f"{REDUCE}append (job.py:{4 + returns})\n{main}")
    stacks |= dict.fromkeys((2, 3), f"{GATHER}append (job.py:2)\n{main}")

    finding = first(stacks, APPEND.format(early=early))

    assert finding.culprit_ranks == ((2, 3) if returns else None)
    said = (
        "ranks 2-3 have come to this line again without that call: they may have left by "
        "`return` (job.py:4) under `if not len(rows)` (job.py:3)"
    )
    assert (said in finding.explanation) is returns


EPOCHS = """
def main():
    {again}
        for batch in loader:
            dist.all_reduce(loss)
        pending.join()
"""


@pytest.mark.parametrize("again", [True, False])
def test_who_is_held_up_between_two_epochs_has_left_no_loop(*, again: bool) -> None:
    """The others have come past it, and are in the next epoch."""
    stacks = dict.fromkeys((0, 2), f"{REDUCE}main (job.py:4)") | {1: f"{JOIN}main (job.py:5)"}

    finding = first(stacks, EPOCHS.format(again="for epoch in range(9):" if again else "if True:"))

    assert finding.culprit_ranks == (1,)
    assert (finding.signature == "uneven-inputs") is not again


EXCHANGE = """
def exchange():
    for peer in (left, right):
        if not incoming[peer]:
            continue
        comm.Recv(buffer, peer)
def main():
    for step in range(9):
        exchange()
        comm.Allreduce(energy, total)
"""


def test_a_receive_in_a_loop_waits_for_its_sender_alone() -> None:
    """It is no matter of how often the loop turns, and who did not send is not known."""
    stacks = dict.fromkeys((0, 2, 3), f"{SUM}main (job.py:9)")
    stacks |= {1: f"{RECV}exchange (job.py:5)\nmain (job.py:8)"}

    finding = first(stacks, EXCHANGE)

    assert (finding.category, finding.culprit_ranks) == ("mpi-mismatch", None)
