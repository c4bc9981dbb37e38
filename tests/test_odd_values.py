"""A line that every rank prints, with another value on one of them."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

C10D = "/opt/torch/distributed/distributed_c10d.py"


def stopped_in(op: str) -> str:
    """Make the traceback of a rank that was stopped in a collective."""
    return (
        'Traceback (most recent call last):\n  File "/w/main.py", line 8, in <module>\n    run()\n'
        f'  File "{C10D}", line 9, in {op}\n    wait()\nKeyboardInterrupt\n'
    )


def job(line: str, *values: object, op: str = "all_reduce") -> dict[str, str]:
    """Make the log of each rank: one line with its value, and that it stood in a collective."""
    return {
        f"rank{rank}.log": f"{line.format(value)}\n{stopped_in(op)}"
        for rank, value in enumerate(values)
    }


@pytest.mark.parametrize(
    ("line", "values", "category", "odd"),
    [
        ("loader ready: {} batches of 32", (1250, 1250, 1240, 1250), "uneven-inputs", 2),
        ("INFO main.py: epoch length {} iterations", (77, 78, 78), "uneven-inputs", 0),
        ("num_samples: {}", (640, 640, 640, 512), "uneven-inputs", 3),
        ("comm up, {} coll channels, 16 nvls channels", (24, 8, 8), "collective-mismatch", 0),
        ("joining group commId={}", (4711, 4711, 815, 4711), "collective-mismatch", 2),
        ("model has {} parameters", (1_240_004,) * 3 + (1_240_000,), "collective-mismatch", 3),
        ("vocab size is {} here", (32000, 32064, 32000), "collective-mismatch", 1),
        ("using torch version {}", ("2.5.1", "2.5.1", "2.4.0"), "nccl-version-mismatch", 2),
        ("init: world_size={} backend=nccl", (4, 3, 4, 4), "init-world-size-mismatch", 1),
    ],
)
def test_the_one_with_another_value_is_named(
    line: str, values: tuple[object, ...], category: str, odd: int
) -> None:
    """Programs of any kind: the line is known by what is left of it without its values."""
    finding = diagnosed_files(job(line, *values)).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, (odd,))
    assert str(values[odd]) in finding.title
    assert str(values[odd - 1]) in finding.title
    assert {piece.rank for piece in finding.evidence} >= {odd}


@pytest.mark.parametrize(
    ("line", "values", "category"),
    [
        ("using torch version {}", ("2.5.1", "2.4.0"), "nccl-version-mismatch"),
        ("comm up, {} channels", (24, 8), "collective-mismatch"),
        ("world size {}", (4, 4, 2, 2), "init-world-size-mismatch"),
    ],
)
def test_of_two_halves_nobody_is_named(
    line: str, values: tuple[object, ...], category: str
) -> None:
    """That they do not match is said."""
    finding = diagnosed_files(job(line, *values)).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, None)


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("my shard has {} samples", (100, 101, 102, 103)),
        ("model has {} parameters", (10, 10, 12, 12)),
        ("{} batches", (100, 120)),
        ("allocated {} MB for all parameters", (500, 400, 400, 400)),
        ("parameters on (tensor, pipeline) parallel rank (0, 1): {}", (5, 4, 4, 4)),
        ("seed {} for drawing samples", (1, 1, 1, 2)),
        ("protocol version 1.2 listens on port {}", (5000, 4000, 4000, 4000)),
        ("gpu {}: driver version 550", (0, 1, 1, 1)),
        ("saw {} samples so far", (64, 64, 32, 64)),
        ("read 900 batches in {} s", (3, 3, 4, 3)),
        ("loss over 10 samples: {}", (0.5, 0.5, 0.7, 0.5)),
        ("waiting for rank {} to send its parameters", (1, 0, 0, 0)),
        ("2026-03-01 10:30:11,{} [INFO] joined (world_size=4)", (822, 818, 818, 818)),
    ],
)
def test_values_that_differ_by_nature_are_silent(line: str, values: tuple[object, ...]) -> None:
    """Each rank's own, each group's, memory, times, places: none of them is a mismatch."""
    signatures = [finding.signature for finding in diagnosed_files(job(line, *values)).findings]

    assert not [name for name in signatures if name.startswith("printed-")]


def test_a_number_that_counts_on_is_no_value_to_compare() -> None:
    """A rank that came less far has another last number; it has not other inputs."""
    logs = job("go", *range(4))
    for rank, (name, text) in enumerate(logs.items()):
        steps = range(20 if rank != 2 else 15)
        logs[name] = "".join(f"{32 * step} samples\n" for step in steps) + text

    assert not [f for f in diagnosed_files(logs).findings if f.signature.startswith("printed-")]


def test_a_job_that_is_well_does_not_mind() -> None:
    """Values that differ are no news where nobody waits and nothing failed."""
    logs = {
        name: text.partition("Traceback")[0] + "epoch 0 step 1 loss 1.0\ntraining finished\n"
        for name, text in job("{} batches", 1250, 1250, 1240).items()
    }

    assert not [f for f in diagnosed_files(logs).findings if f.signature.startswith("printed-")]


def test_a_line_of_few_ranks_is_not_compared() -> None:
    """Where most ranks do not print it, the line is about those that do."""
    logs = job("go", *range(4))
    for rank, value in ((0, 5), (1, 6)):
        logs[f"rank{rank}.log"] = f"world size {value}\n" + logs[f"rank{rank}.log"]

    assert not [f for f in diagnosed_files(logs).findings if f.signature.startswith("printed-")]


CONFIG = "cfg world=4 algo=ring buf={} role=r{} overlap=1"
TOO_LONG = (
    "RuntimeError: [gloo/transport/tcp/pair.cc:552] op.preamble.length <= op.nbytes. 4194304 vs 8\n"
)


def configured(*values: str, end: str) -> dict[str, str]:
    """Make the log of each rank: its settings, and its last line."""
    return {f"rank{n}.log": f"{CONFIG.format(v, n)}\n{end}" for n, v in enumerate(values)}


def test_the_one_with_another_setting_where_ranks_do_not_fit_together() -> None:
    """Settings of any name and kind; those that are each rank's own do not count."""
    logs = configured("4MiB", "8MiB", "4MiB", "4MiB", end=TOO_LONG)
    (finding, *_) = diagnosed_files(logs).findings

    assert (finding.signature, finding.culprit_ranks) == ("printed-settings-differ", (1,))


@pytest.mark.parametrize(
    ("values", "end"),
    [
        (("4MiB", "8MiB", "4MiB", "4MiB"), "RuntimeError: Timed out waiting 1800000ms for recv\n"),
        (("4MiB", "8MiB", "4MiB", "8MiB"), TOO_LONG),
        (("4MiB",) * 4, TOO_LONG),
    ],
    ids=["no such complaint", "two and two", "alike"],
)
def test_a_setting_that_names_nobody(values: tuple[str, ...], end: str) -> None:
    """Ranks of several roles have settings of their own."""
    findings = diagnosed_files(configured(*values, end=end)).findings

    assert not any(
        each.signature == "printed-settings-differ" for each in findings if each.culprit_ranks
    )
