"""Ranks that print one statement with their number, or that of their device, within it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

TROUBLE = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete\n"
ORDERS = ((0, 1, 2, 3), (2, 0, 3, 1), (1, 0, 2, 3), (3, 2, 0, 1))


def steps(form: str, absent: int | None) -> str:
    """Print a line of four ranks in each of some steps, the last of which one does not reach."""
    last = len(ORDERS) - 1
    return "".join(
        f"{form.format(step=step, rank=rank)}\n"
        for step, order in enumerate(ORDERS)
        for rank in order
        if step < last or rank != absent
    )


@pytest.mark.parametrize(
    "form",
    [
        "epoch 0 step {step} rank {rank} loss 0.5",
        "pass forward on device {rank} step {step}",
        "step {step}, mem:cuda:{rank} 7.5GB",
    ],
)
def test_who_did_not_come_to_the_last_step(form: str) -> None:
    """All others did, and then somebody met trouble."""
    (finding, *_) = diagnosed_files({"job.log": steps(form, 2) + TROUBLE}).findings

    assert (finding.signature, finding.culprit_ranks) == ("last-phase-differs", (2,))


@pytest.mark.parametrize(
    "text",
    [
        steps("epoch 0 step {step} rank {rank} loss 0.5", 2),
        steps("epoch 0 step {step} rank {rank} loss 0.5", None) + TROUBLE,
        steps("step {step} of batch {rank} loss 0.5", 2) + TROUBLE,
    ],
    ids=["it may be cut there", "all came", "no ranks"],
)
def test_who_may_have_come(text: str) -> None:
    """Nothing shows that a rank is behind."""
    findings = diagnosed_files({"job.log": text}).findings

    assert not any(finding.culprit_ranks for finding in findings)
