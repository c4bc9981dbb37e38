"""One operation that ranks have come to by different ways: one call of it, or several."""

from __future__ import annotations

import pytest
from small_jobs import report_of, still

from whyhang.analyzer.facts import Excerpt

LINES = """\
def discriminate(step):
    if accuracy > 0.93:
        return
    sync("D")

def generate(step):
    sync("G")

def run():
    for step in range(9):
        for phase in (discriminate, generate):
            phase(step)
""".splitlines()
IN_A_ROW = """\
def run():
    for step in range(9):
        sync("D")
        sync("G")
""".splitlines()
CHOSEN = """\
def run():
    for step in range(9):
        if step % 2:
            sync("D")
        else:
            sync("G")
""".splitlines()


def stack(*places: tuple[str, int]) -> str:
    """Return a stack in ``sync``, called by these functions at these lines, innermost first."""
    frames = [f"{function} (gan.py:{line})" for function, line in places]
    inner = ["all_reduce (torch/distributed/distributed_c10d.py:3100)", "sync (sync.py:42)"]
    return "\n".join([*inner, *frames, "<module> (gan.py:60)"])


D = stack(("discriminate", 4), ("run", 12))
G = stack(("generate", 7), ("run", 12))


@pytest.mark.parametrize(("ranks", "culprits"), [((G, D, D, G), (0, 3)), ((D, G, G, G), None)])
def test_what_a_loop_calls_in_turn_are_two_calls(
    ranks: tuple[str, ...], culprits: tuple[int, ...] | None
) -> None:
    """A return leads past the first; where most went that way, nobody is the odd one."""
    source = Excerpt(file="gan.py", first_line=1, lines=tuple(LINES))
    finding = report_of([*still(dict(enumerate(ranks))), source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)
    assert "in all_reduce (gan.py:7)" in finding.title
    assert "may have come past that call by `return`" in finding.explanation


@pytest.mark.parametrize(
    ("lines", "category"),
    [
        (IN_A_ROW, "collective-mismatch"),
        (CHOSEN, "unknown"),
        ([line.replace("range(9)", "range(rank, 9)") for line in IN_A_ROW], "collective-mismatch"),
        ([line.replace('"G"', '"G" if rank else "D"') for line in IN_A_ROW], "unknown"),
    ],
)
def test_two_lines_of_which_none_is_a_choice_are_two_calls(lines: list[str], category: str) -> None:
    """Ranks may take the one way or the other by right, at a choice or by their numbers."""
    at = [number for number, line in enumerate(lines, 1) if "sync" in line]
    stacks = [stack(("run", line)) for line in at]
    source = Excerpt(file="gan.py", first_line=1, lines=tuple(lines))
    job = still({0: stacks[0], 1: stacks[1], 2: stacks[1], 3: stacks[0]})

    finding = report_of([*job, source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, None)


def test_what_a_line_calls_by_the_role_of_a_rank_may_be_one_call() -> None:
    """A server and its workers meet in one collective."""
    lines = [line.replace("phase(step)", "ROLES[role](step)") for line in LINES]
    source = Excerpt(file="gan.py", first_line=1, lines=tuple(lines))

    finding = report_of([*still({0: D, 1: G, 2: G, 3: D}), source]).findings[0]

    assert finding.category == "unknown"


@pytest.mark.parametrize(
    ("first", "second", "culprits"),
    [
        ("dist.all_reduce(x)", "dist.all_reduce(y)", (1,)),
        ("dist.all_reduce(x, group=group)", "dist.all_reduce(y, group=group)", None),
        ("dist.all_reduce(x, op, tensor_group)", "dist.all_reduce(y)", None),
        ("sync(x)", "sync(y)", None),
    ],
)
def test_the_one_rank_in_another_call_is_odd_if_both_are_of_all_ranks(
    first: str, second: str, culprits: tuple[int, ...] | None
) -> None:
    """In a call of its own group it may wait for a rank that left this one out."""
    lines = ["def run():", "    for step in range(9):", f"        {first}", f"        {second}"]
    source = Excerpt(file="gan.py", first_line=1, lines=tuple(lines))
    inner = "all_reduce (torch/distributed/distributed_c10d.py:3100)\nrun (gan.py:{})"
    stacks = {rank: inner.format(3 if rank == 1 else 4) for rank in range(4)}

    finding = report_of([*still(stacks), source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)
