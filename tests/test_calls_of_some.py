"""Calls of some ranks only, in groups or under a condition: who is elsewhere need not be odd."""

from __future__ import annotations

import pytest
from small_jobs import report_of, still

from whyhang.analyzer.facts import Excerpt
from whyhang.analyzer.report import Finding
from whyhang.analyzer.stacks.source_blocks import differs

C10D = "torch/distributed/distributed_c10d.py"


def first(stacks: dict[int, str], lines: str) -> Finding:
    """Diagnose ranks that stand still in a program of these lines."""
    source = Excerpt(file="train.py", first_line=1, lines=tuple(lines.splitlines()))
    return report_of([*still(stacks), source]).findings[0]


GROUPS = """\
def build(names):
    racks = [dist.new_group(name) for name in names]
    {when}:
        return dist.new_group(leaders)

def main():
    groups = build(names)
    sync(groups)
"""


@pytest.mark.parametrize(
    ("when", "culprits"), [("with timer", None), ("if step == 50", None), ("if names", (2,))]
)
def test_who_came_through_the_creation_of_groups_has_not_left_it_out(
    when: str, culprits: tuple[int, ...] | None
) -> None:
    """It has created its groups, and the order is what differs; not where a condition asks."""
    creates = f"new_group ({C10D}:5000)\nbuild (train.py:4)\nmain (train.py:7)\n"
    syncs = f"all_reduce ({C10D}:3100)\nmain (train.py:8)\n"
    finding = first({0: creates, 1: creates, 2: syncs}, GROUPS.format(when=when))

    assert (finding.category, finding.culprit_ranks) == ("group-creation-mismatch", culprits)
    assert ("that rank 2 went past" in finding.title) is (culprits is None)
    assert ("in another order" in finding.explanation.replace("same order", "")) is (not culprits)


KEEPS = """\
def fit(self):
    for epoch in range(9):
        for batch in loader:
            dist.all_reduce(grad)
        if {asks}:
            dist.all_gather(parts, weight)
"""


@pytest.mark.parametrize(
    ("asks", "category"),
    [
        ("metric < best", "collective-mismatch"),
        ("epoch > 2", "uneven-inputs"),
        ("args.evaluate", "uneven-inputs"),
    ],
)
def test_a_condition_of_each_rank_behind_a_loop_may_have_been_passed(
    asks: str, category: str
) -> None:
    """The others may be in the next epoch; where it counts epochs, they are still in this one."""
    gathers = f"all_gather ({C10D}:4287)\nfit (train.py:6)\n"
    reduces = f"all_reduce ({C10D}:3252)\nfit (train.py:4)\n"
    finding = first({0: reduces, 1: gathers, 2: reduces}, KEEPS.format(asks=asks))

    assert (finding.category, finding.culprit_ranks) == (category, (1,))


SAMPLES = """\
def report(self):
    for prompt in prompts:
        dist.all_reduce(logits, group={group})
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("group", "culprits"), [("self.tp_group", None), ("dist.group.WORLD", (1,))]
)
def test_who_is_in_a_loop_with_its_group_may_have_been_left_there(
    group: str, culprits: tuple[int, ...] | None
) -> None:
    """The other of its group may have left the loop too early."""
    samples = f"all_reduce ({C10D}:3252)\nreport (train.py:3)\n"
    waits = f"barrier ({C10D}:5356)\nreport (train.py:4)\n"
    finding = first({0: waits, 1: samples, 2: waits, 3: waits}, SAMPLES.format(group=group))

    assert finding.culprit_ranks == culprits


@pytest.mark.parametrize(
    ("asks", "may_differ"),
    [
        ("if step == 2000:", False),
        ("if self.global_step % self.every == 0:", False),
        ("if step % 4 == rank:", True),
        ("if epoch >= self.patience:", True),
        ("if step > 5 and loss > best:", True),
    ],
)
def test_the_number_of_a_turn_is_alike_on_all_ranks(asks: str, *, may_differ: bool) -> None:
    """So a way out under such a condition leads nobody past the call of others."""
    assert differs(f"        {asks}") is may_differ


STREAMS = """\
def batches(link):
    while True:
        x = link.recv()
        yield x
def score(link):
    for x in batches(link):
        dist.all_reduce(x)
"""


def test_who_is_in_the_body_of_a_loop_over_a_generator_has_not_left_the_generators() -> None:
    """It stands in its loop and waits to be asked for more."""
    receives = f"recv ({C10D}:2600)\nbatches (train.py:3)\nscore (train.py:6)\n"
    sums = f"all_reduce ({C10D}:3100)\nscore (train.py:7)\n"
    source = Excerpt(file="train.py", first_line=1, lines=tuple(STREAMS.splitlines()))
    report = report_of([*still({0: sums, 1: receives, 2: receives, 3: receives}), source])

    assert all("left the loop" not in finding.title for finding in report.findings)
