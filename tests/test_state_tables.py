"""Tables in which a program lists its ranks and what each does: who stands out in them."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

HEAD = "  task   host      step   state       since\n  ---------------------------------\n"


def table(odd: dict[int, str], usual: str, head: str = HEAD, *, form: str = "") -> str:
    """Print a row of each of eight ranks."""
    form = form or "  {rank}   cn{host}   4410   {state}   00:31:1{rank}"
    rows = (form.format(rank=r, host=10 + r // 2, state=odd.get(r, usual)) for r in range(8))
    return head + "\n".join(rows) + "\n"


STEPS = "  {rank}   cn{host}   {state}   RUN   00:31:1{rank}"
BARS = "| {rank} | {host} | {state} |"
BARRED = "| rank | host | status |\n|------|------|--------|\n"
FIELDS = "rank {rank}: step=12 state={state}"
SEEN = "worker {rank}   {state}"


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (table({5: "RADIATION"}, "WAIT_HALO"), "missing-rank-in-collective"),
        (table({5: "4409"}, "4410", form=STEPS), "missing-rank-in-collective"),
        (table({5: "loading"}, "ready", BARRED, form=BARS), "missing-rank-in-collective"),
        (table({5: "lost"}, "ok", BARRED, form=BARS), "rank-died"),
        (table({5: "backward"}, "allreduce", "", form=FIELDS), "missing-rank-in-collective"),
        (
            table({5: "913.2s"}, "0.8s", "worker  last_seen\n", form=SEEN.replace("worker ", "")),
            "missing-rank-in-collective",
        ),
        (
            table({5: "no"}, "yes", "rank  voted\n", form="{rank}  {state}"),
            "missing-rank-in-collective",
        ),
        (
            table({5: "-"}, "6.1", "rank  bwd\n", form="{rank}  {state}"),
            "missing-rank-in-collective",
        ),
    ],
    ids=["at work", "a step behind", "not ready", "dead", "without a head", "silent", "no", "none"],
)
def test_who_stands_out(text: str, category: str) -> None:
    """Most wait, or are as they should be."""
    (finding, *_) = diagnosed_files({"monitor.log": text}).findings

    assert (finding.category, finding.culprit_ranks) == (category, (5,))


TIMES = "rank  fwd+bwd  nccl     optim\n"
OWN_TIMES = "  {rank}    {state}    0.921   0.031"


def test_who_works_longer_is_slow() -> None:
    """All others are alike; nothing hangs."""
    text = table({5: "1.968"}, "1.061", TIMES, form=OWN_TIMES)
    (finding, *_) = diagnosed_files({"breakdown.txt": text}).findings

    assert (finding.category, finding.culprit_ranks) == ("slow-not-hung", (5,))


@pytest.mark.parametrize(
    "odd",
    [{5: "1.968", 2: "0.640"}, {5: "1.171"}, {1: "1.9", 4: "1.8", 5: "1.9"}],
    ids=["all differ", "hardly", "many"],
)
def test_times_that_merely_differ_name_nobody(odd: dict[int, str]) -> None:
    """Work differs from rank to rank."""
    text = table(odd, "1.061", TIMES, form=OWN_TIMES)

    assert not any(f.culprit_ranks for f in diagnosed_files({"breakdown.txt": text}).findings)


MOVES = "".join(
    "id  step  doing\n"
    + "".join(
        f"{r}   {9 * look + 100 - (r == 2)}   {'x' if r == 2 else 'wait'}\n" for r in range(4)
    )
    for look in range(3)
)


@pytest.mark.parametrize(
    "text",
    [
        table({}, "WAIT_HALO"),
        table({5: "WAIT_HALO"}, "RADIATION"),
        table({1: "A", 2: "B", 5: "C"}, "WAIT_HALO"),
        table({5: "waiting"}, "running", BARRED, form=BARS),
        table({0: "Sampling data"}, "Waiting here", "", form="[Rank {rank}]: {state}"),
        table({5: "spare"}, "ready", "| rank | host | role |\n|--|--|--|\n", form=BARS),
        table({5: "-"}, "1", "rank  exit_code\n", form="{rank}  {state}"),
        table({5: "no"}, "yes", "rank  writer\n", form="{rank}  {state}")
        + "".join(f"[rank{r}]: step {s}\n" for s in range(9) for r in range(8)),
        MOVES,
    ],
    ids=[
        "none",
        "one waits",
        "several",
        "who waits",
        "their own lines",
        "a role",
        "ends",
        "it goes on",
        "it moves",
    ],
)
def test_nobody_stands_out(text: str) -> None:
    """What one does beside the others says nothing there."""
    findings = diagnosed_files({"monitor.log": text}).findings

    assert not any(finding.culprit_ranks for finding in findings)
