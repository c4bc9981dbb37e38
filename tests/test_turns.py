"""Ranks that are in two turns of one loop: who has come past the call of the other, and how."""

from __future__ import annotations

import pytest
from small_jobs import in_steps

from whyhang.analyzer.facts import Excerpt

LOOP = """
def train():
    for i, batch in enumerate(loader):
        dist.all_reduce(loss(batch))
        if i % 10 == 9:
            log.info("step %d %s", i, meters)
"""


@pytest.mark.parametrize(
    ("turns", "signature"), [(1, "past-a-call"), (2, "in-another-step"), (-1, "in-another-step")]
)
def test_who_is_in_the_next_turn_has_come_past_the_call_of_this_one(
    turns: int, signature: str
) -> None:
    """An object that is logged reduces its values, on the ranks whose logger writes."""
    logs = """
all_reduce (torch/distributed/distributed_c10d.py:3100)
__str__ (meters.py:40)
format (logging/__init__.py:680)
train (train.py:5)
<module> (train.py:60)
"""
    reduces = """
all_reduce (torch/distributed/distributed_c10d.py:3100)
train (train.py:3)
<module> (train.py:60)
"""
    excerpt = Excerpt(file="train.py", first_line=1, lines=tuple(LOOP.strip().splitlines()))
    stacks = {0: logs, 1: reduces, 2: reduces}
    steps = {0: "i=9", 1: f"i={9 + turns}", 2: f"i={9 + turns}"}
    finding = in_steps(steps, stacks, excerpt).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, (0,))
    assert ("which logging has called" in finding.explanation) is (signature == "past-a-call")


@pytest.mark.parametrize(
    ("call", "culprits"),
    [("dist.all_reduce(x)", (1,)), ("dist.all_reduce(x, group=self.tp)", None)],
)
def test_who_waits_in_a_call_of_its_group_may_wait_for_one_that_went_past_it(
    call: str, culprits: tuple[int, ...] | None
) -> None:
    """A ``continue`` leads past the call; who is ahead by it may be of that group."""
    lines = ["def train():", "    for i, batch in enumerate(loader):", "        total(batch)"]
    lines += ["        if bad(batch):", "            continue", f"        {call}"]
    stack = "all_reduce (torch/distributed/distributed_c10d.py:3100)\ntrain (train.py:{})\n"
    total = "all_reduce (torch/distributed/distributed_c10d.py:3100)\ntotal (sum.py:9)\n"
    stacks = dict.fromkeys(range(4), f"{total}train (train.py:3)\n")
    stacks[1] = stack.format(6)
    counts = {rank: "i=9" if rank == 1 else "i=10" for rank in range(4)}
    excerpt = Excerpt(file="train.py", first_line=1, lines=tuple(lines))

    finding = in_steps(counts, stacks, excerpt).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("past-a-call", culprits)


EPOCHS = """
def never_break(fn):
    def wrapper(*args):
        try:
            return fn(*args)
        except Exception as error:
            if strict:
                raise
            log.debug(error)
            return None
    return wrapper

def on_epoch_end(epoch):
    for x, y in batches(epoch):
        score.update(x, y)
    dist.all_gather_object(scores, score.compute())

def main():
    for epoch in range(9):
        train_epoch(epoch)
        for callback in callbacks:
            callback.on_epoch_end(epoch)
"""


@pytest.mark.parametrize(
    ("over", "raises"),
    [
        ("for callback in callbacks", False),
        ("for part in parts", False),
        ("for part in parts", True),
    ],
)
def test_a_wrapper_that_takes_errors_is_the_way_past_the_call(over: str, raises: bool) -> None:
    """Rank 1 is an epoch ahead; where errors are raised, it may have had fewer turns."""
    source = EPOCHS.replace("for callback in callbacks", over)
    source = source.replace("return None", "raise") if raises else source
    lines = source.strip("\n").split("\n")

    def at(words: str) -> int:
        return next(n for n, line in enumerate(lines, 1) if words in line)

    gather = f"""
all_gather_object (torch/distributed/distributed_c10d.py:3200)
on_epoch_end (train.py:{at("all_gather_object")})
wrapper (train.py:{at("return fn")})
main (train.py:{at("callback.on_epoch_end")})
<module> (train.py:60)
"""
    backward = f"""
all_reduce (torch/distributed/distributed_c10d.py:3100)
train_epoch (step.py:7)
main (train.py:{at("train_epoch(")})
<module> (train.py:60)
"""
    counts = {rank: f"epoch@main={3 if rank == 1 else 2}" for rank in range(3)}
    excerpt = Excerpt(file="train.py", first_line=1, lines=tuple(lines))
    finding = in_steps(counts, {0: gather, 1: backward, 2: gather}, excerpt).findings[0]

    assert finding.culprit_ranks == (1,)
    assert (finding.category == "uneven-inputs") is raises
    assert ("`except Exception as error` (train.py:5)" in finding.explanation) is not raises


WRITES = """
def write(doc):
    for t in range(24):
        token = model(doc)
        {ends}
            break

def main():
    for doc in documents:
        write(doc)
    dist.all_gather_object(parts, doc)
"""


@pytest.mark.parametrize(
    ("ends", "told"), [("if (token == EOS).all():", True), ("if world_size == 1:", False)]
)
def test_a_loop_within_the_turn_may_end_earlier_on_some(ends: str, *, told: bool) -> None:
    """What leaves it is quoted, though it stands below the call: it held in the turn before."""
    model = "all_gather (torch/distributed/distributed_c10d.py:3100)\nwrite (train.py:3)\n"
    stacks = dict.fromkeys((0, 1), f"{model}main (train.py:9)\n")
    stacks[2] = "all_gather (torch/distributed/distributed_c10d.py:3100)\nmain (train.py:10)\n"
    lines = WRITES.format(ends=ends).strip("\n").split("\n")
    excerpt = Excerpt(file="train.py", first_line=1, lines=tuple(lines))

    finding = in_steps({}, stacks, excerpt).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("uneven-inputs", (2,))
    assert (f"`{ends[:-1]}` (train.py:4)" in finding.explanation) is told


@pytest.mark.parametrize(
    ("condition", "told"), [("if saver.due():", True), ("if i % 10 == 9:", False)]
)
def test_the_condition_of_the_call_that_others_have_come_past_is_quoted(
    condition: str, *, told: bool
) -> None:
    """A clock of its own, a budget: what each rank answers for itself. All count alike."""
    lines = ["def train():", "    for i, batch in enumerate(loader):", "        reduce(batch)"]
    lines += [f"        {condition}", "            saver.save(i)"]
    gather = "all_gather (torch/distributed/distributed_c10d.py:3100)\n"
    stacks = dict.fromkeys((0, 2), f"{gather}save (saver.py:4)\ntrain (train.py:5)\n")
    stacks[1] = "all_reduce (torch/distributed/distributed_c10d.py:3200)\ntrain (train.py:3)\n"
    excerpt = Excerpt(file="train.py", first_line=1, lines=tuple(lines))

    finding = in_steps({0: "i=9", 1: "i=10", 2: "i=9"}, stacks, excerpt).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("past-a-call", (1,))
    assert (f"under `{condition[:-1]}` (train.py:4)" in finding.explanation) is told
