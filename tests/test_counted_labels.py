"""Labels that say of how many ("worker 3/6"), fields of objects, rows of ps: whose a line is."""

import pytest
from log_docs import diagnosed_files

LOOP = 6


def spoken(label: str, *, silent: int, says: str = "timed out in gradient exchange") -> str:
    """Return a log in which all but one give up, each behind its label."""
    begun = [f"{label.format(rank)} tokens={rank * 7}" for rank in range(LOOP)]
    ended = [f"{label.format(rank)} {says}" for rank in range(LOOP) if rank != silent]
    times = ["2025-06-11 08:14:02 INFO "] * len(begun) + ["2025-06-11 08:24:10 ERROR "] * len(ended)
    return "".join(f"{time}{line}\n" for time, line in zip(times, [*begun, *ended], strict=True))


@pytest.mark.parametrize("label", ["worker {}/6:", "[{}/6]", "(shard {} of 6)", "[Rang {}/6]"])
def test_who_alone_does_not_give_up(label: str) -> None:
    """Where labels say of how many, two turns are enough to tell that they count ranks."""
    report = diagnosed_files({"job.log": spoken(label, silent=2)})

    assert (report.job.world_size, report.findings[0].culprit_ranks) == (6, (2,))


@pytest.mark.parametrize(
    "log",
    [
        "".join(f"[{n}/6] Building CXX object part{n}.o\n" for n in [*range(1, 7)] * 2),
        "".join(f"[{n * 20}/120] loss 0.{n}\n" for n in [*range(6)] * 2),
        spoken("step {}/6:", silent=2),
    ],
)
def test_what_counts_no_ranks(log: str) -> None:
    """Parts of a build and steps of an epoch are no ranks, nor is who has no line a culprit."""
    report = diagnosed_files({"job.log": log})

    assert not report.ranks
    assert not any(finding.culprit_ranks for finding in report.findings)


def objects(key: str) -> str:
    """Return a log of objects in which a field of this name counts ranks; rank 1 stops early."""
    lines = []
    for step in range(118, 124):
        lines += [
            f'{{"ts":"2025-03-02T10:{step - 100}:0{rank}Z","lvl":"info","{key}":{rank},'
            f'"msg":"step","n":{step}}}'
            for rank in range(4)
            if rank != 1 or step < 121
        ]
    lines += [
        f'{{"ts":"2025-03-02T10:53:0{rank}Z","lvl":"error","{key}":{rank},'
        '"msg":"allreduce timed out"}'
        for rank in (0, 2, 3)
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("key", ["rk", "process_index", "global_rank"])
def test_objects_with_a_rank_by_another_name(key: str) -> None:
    """The field that names a rank tells who speaks, and the others are of the message."""
    report = diagnosed_files({"train.jsonl": objects(key)})

    assert report.findings[0].culprit_ranks == (1,)
    assert "step n=120" in report.ranks[0].activity + report.ranks[1].activity


PS = """8 GPUs on {host}. Training stops at iteration 512.

  PID STAT WCHAN   CMD
{rows}"""


def table(argument: str) -> str:
    """Return rows of ps of eight ranks, the fifth of which waits for a file server."""
    return "".join(
        f" 410{n} {'Dl nfs_wait_bit_killable' if n == 4 else 'Rl -'} python t.py {argument}{n}\n"
        for n in range(8)
    )


@pytest.mark.parametrize(
    ("host", "argument", "culprits"),
    [
        ("one node", "--local_rank=", (4,)),
        ("this host", "--world-size 16 --rank ", (4,)),
        ("the second of two nodes with 8 GPUs each", "--local_rank=", None),
        ("this host", "--node_rank ", None),
    ],
)
def test_ranks_in_commands(host: str, argument: str, culprits: tuple[int, ...] | None) -> None:
    """A command that ps shows tells its rank; a local rank does only where there is one host."""
    report = diagnosed_files({"notes.md": PS.format(host=host, rows=table(argument))})

    assert report.findings[0].signature == "listed-uninterruptible"
    assert report.findings[0].culprit_ranks == culprits


PHASES = (
    "00:00 TP{}] Init begin.",
    "00:11 TP{}] Load weight begin.",
    "01:30 TP{}] Load weight end.",
)
SGLANG = "".join(
    f"[2025-08-01 10:{phase.format(rank)}\n"
    for phase in PHASES
    for rank in range(4)
    if (rank, phase) != (1, PHASES[-1])
)


def test_a_label_within_the_brackets_of_a_clock() -> None:
    """A clock that begins every line is a margin; one with a label behind it tells who speaks."""
    report = diagnosed_files({"sg.log": SGLANG})

    assert report.findings[0].culprit_ranks == (1,)
    assert "'Load weight begin.'" in report.findings[0].title
