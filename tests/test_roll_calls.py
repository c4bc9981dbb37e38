"""Who is absent where one process names the others line by line, and where that says nothing."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding

WAITS = "".join(f"10:0{n}:00 still waiting for actors, {60 * n} s\n" for n in range(1, 4))
GIVES_UP = (
    "Traceback (most recent call last):\n"
    '  File "learner.py", line 31, in main\n    roster.wait_all()\n'
    "roster.StartTimeout: not everyone showed up\n"
)
BREAKS = GIVES_UP.replace("StartTimeout: not everyone showed up", "BadName: -").replace("wait", "")


def first(text: str) -> Finding | None:
    """Return what comes first in the diagnosis of one log."""
    findings = diagnosed_files({"job.log": text}).findings
    return findings[0] if findings else None


def joined(*ranks: int, form: str = "actor joined (rank {}) from 10.4.0.{}:40122") -> str:
    """Print the line of each that comes."""
    return "".join(f"10:00:0{n} {form.format(rank, rank)}\n" for n, rank in enumerate(ranks))


@pytest.mark.parametrize(
    "text",
    [
        "learner up, rank 0 of 7\n" + joined(2, 1, 6, 3, 5) + WAITS + GIVES_UP,
        joined(0, 2, 1, 6, 3, 5, form="worker {} ready") + WAITS,
        "world size 7\n" + joined(0, 6, 1, 2, 3, 5, form="进程 {} 已就绪") + WAITS,
    ],
    ids=["by rank 0, which gives up", "all are named", "in Chinese"],
)
def test_who_did_not_come_to_the_start(text: str) -> None:
    """All others are named, and who names them waits on."""
    finding = first(text)

    assert finding is not None
    assert (finding.signature, finding.category) == ("absent-from-roll-call", "init-missing-rank")
    assert finding.culprit_ranks == (4,)


@pytest.mark.parametrize(
    "text",
    [
        joined(0, 1, 2, 3, 4, form="worker {} ready") + WAITS,
        joined(0, 1, 3, form="worker {} ready") + "".join(f"step {n} loss 2\n" for n in range(9)),
        joined(0, 1, 3, form="worker {} finished") + WAITS,
        joined(0, 1, 3, form="data worker {} started") + WAITS,
        joined(0, 1, 3, form="worker {} ready") + "worker 2: ready (late)\n" + WAITS,
        joined(2, 3, 4, form="explorer is rank {}")
        + joined(0, 1, form="learner is rank {}")
        + WAITS,
        joined(0, 1, 3, 2, 5, form="layer {} loaded") + WAITS,
        "".join(f"Rank 0 got of Rank {n + 1}: Greeting from rank {n} of 8!\n" for n in range(7)),
        joined(0, 1, 7, form="worker {} ready") + WAITS,
        joined(1, 2, form="worker {} ready") + joined(0, 1, 2, form="worker {} ready") + WAITS,
        joined(0, 1, 3, form="worker {} ready") + BREAKS,
    ],
    ids=[
        "all came",
        "it goes on",
        "ends",
        "of data",
        "late",
        "two roles",
        "no ranks",
        "named as the other side",
        "many",
        "rounds differ",
        "another error",
    ],
)
def test_a_roll_that_says_nothing(text: str) -> None:
    """Nobody is named where the list may end there for another reason."""
    findings = diagnosed_files({"job.log": text}).findings

    assert not any(each.signature == "absent-from-roll-call" for each in findings)
