"""The last phase: own lines of programs that nobody knows, aligned over the ranks."""

from __future__ import annotations

import random

import pytest
from log_docs import diagnosed

from whyhang.analyzer.report import Finding

RANKS = range(8)
WATCHDOG = (
    "[rank{r}]:[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=118, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)


CONNECTED = (
    "[Gloo] Rank {r} is connected to 3 peer ranks. Expected number of connected peer ranks is : 3\n"
)


def trainer(rank: int, last: int = 118, *, first: int = 60) -> str:
    """Write the log of a trainer that opens a shard now and then, each rank one of its own."""
    noise = random.Random(rank)
    lines = [f"joined as worker {rank} of 8", "model has 1.2B parameters"]
    for step in range(first, last + 1):
        lines.append(f"step {step} loss {noise.uniform(2, 3):.3f} {noise.uniform(90, 99):.1f} ms")
        if (step + rank) % 10 == 0:
            lines += [f"opening shard {noise.randrange(99)}", f"shard open, {step} rows"]
    return "\n".join(lines) + "\n"


def server(rank: int, upto: int = 6) -> str:
    """Write the log of an engine that starts, phase by phase."""
    phases = (
        f"Loading weights took {3 + rank / 10:.2f} seconds",
        "Available KV cache memory: 31.5 GiB",
        "Warm-up started",
        "Warm-up finished",
        "Capturing graphs for 35 batch sizes",
        "Graph capturing finished in 21 secs",
    )
    return "\n".join(phases[:upto]) + "\n"


def solver(rank: int, sweeps: int = 40) -> str:
    """Write the log of a solver that prints times, on a host with a clock of its own."""
    lines = []
    for sweep in range(sweeps):
        at = 1000 * rank + 20 * sweep
        clock = f"2024-05-01 {10 + at // 3600}:{at // 60 % 60:02}:{at % 60:02}"
        lines += [
            f"{clock} halo exchange {sweep}",
            f"{clock} residual after sweep {sweep}: 1e-{rank}",
        ]
    return "\n".join(lines) + "\n"


def logs_of(program, **odd: str) -> dict[int | None, str]:  # type: ignore[no-untyped-def]
    return {rank: odd.get(f"r{rank}", program(rank)) for rank in RANKS}


def phase_of(logs: dict[int | None, str]) -> Finding | None:
    """Return what is said of the last phase of a rank."""
    report = diagnosed(logs)
    assert report.verdict != "healthy"
    return next((f for f in report.findings if f.signature == "last-phase-differs"), None)


IN_SHARD = trainer(5, 117) + "opening shard 12\n"


@pytest.mark.parametrize(
    ("logs", "rank", "line", "lacks"),
    [
        (logs_of(trainer, r5=IN_SHARD), 5, "opening shard 12", "step 118"),
        (logs_of(trainer, r5=trainer(5) + "opening shard 12\n"), 5, "opening shard 12", ""),
        (logs_of(trainer, r2=trainer(2, 117) + "retrying lock\n"), 2, "retrying lock", "step 118"),
        (logs_of(server, r3=server(3, 3)), 3, "Warm-up started", "Warm-up finished"),
        (logs_of(server, r6=server(6, 5)), 6, "Capturing graphs", "Graph capturing finished"),
        (logs_of(solver, r4=solver(4, 38) + "writing restart file\n"), 4, "writing", "exchange 38"),
        (
            {0: trainer(0), 1: trainer(1, 117) + "opening shard 3\n"},
            1,
            "opening shard 3",
            "step 118",
        ),
    ],
)
def test_the_rank_whose_lines_end_first_or_turn_elsewhere_is_a_possibility(
    logs: dict[int | None, str], rank: int, line: str, lacks: str
) -> None:
    """It is named with its last line and the first that it lacks, and never for certain."""
    finding = phase_of(logs)

    assert finding is not None
    assert finding.culprit_ranks == (rank,)
    assert line in finding.title
    assert lacks in finding.title
    assert finding.confidence <= 0.65


def interleaved(logs: dict[int | None, str]) -> dict[int | None, str]:
    """Write the logs of all ranks into one, each line with its rank."""
    lines = [
        (n, rank, line) for rank, log in logs.items() for n, line in enumerate(log.split("\n"))
    ]
    return {None: "".join(f"[rank{rank}]: {line}\n" for _, rank, line in sorted(lines) if line)}


def test_ranks_in_one_log_are_aligned_as_those_with_logs_of_their_own() -> None:
    """The prefix tells whose a line is."""
    finding = phase_of(interleaved(logs_of(trainer, r5=IN_SHARD)))

    assert finding is not None
    assert finding.culprit_ranks == (5,)


def test_lines_without_the_rank_belong_to_it_where_the_launcher_labels_them() -> None:
    """A program names its rank in some of its lines, torchrun labels all of them."""
    start = "[rank {0}] joined\n[rank {0}] step 1\n[rank {0}] step 2\n"
    logs = {rank: (start + "[rank {0}] saving shard\n").format(rank) for rank in range(4)}
    logs[2] = start.format(2) + "reading pages\nindex has 300 pages, sorting\n"
    lines = [f"[default{rank}]:{line}\n" for rank in logs for line in logs[rank].splitlines()]
    finding = phase_of({None: "".join(lines)})

    assert finding is not None
    assert finding.culprit_ranks == (2,)
    assert "sorting" in finding.title
    assert "'saving shard'" in finding.title


@pytest.mark.parametrize("label", ["[rank {}] ", "Rank {}: ", "worker-{} | ", "(process {}) "])
def test_ranks_are_shown_in_one_row_by_what_they_printed_last(label: str) -> None:
    """What differs is their own label only."""
    lines = [f"[default{rank}]:{label.format(rank)}saving shard\n" for rank in range(4)]
    rows = {rank.activity for rank in diagnosed({None: "".join(lines) * 3}).ranks}

    assert rows == {"last line: saving shard"}


def test_who_waits_and_who_is_in_another_phase_make_one_picture() -> None:
    """Where the others wait in a collective, the rank that stands elsewhere has not reached it."""
    logs = {rank: trainer(rank, 117) + WATCHDOG.format(r=rank) for rank in RANKS if rank != 5}
    report = diagnosed({**logs, 5: IN_SHARD})

    first = report.findings[0]
    assert (report.verdict, first.category) == ("hung", "missing-rank-in-collective")
    assert first.culprit_ranks == (5,)
    assert any("opening shard 12" in piece.quote for piece in first.evidence) or (
        "opening shard 12" in report.headline
    )


SAVING = (
    "storing what is to be kept\nwriting weights alone in bfloat16 after the last step, step 9\n"
)
PASTED = (
    "".join(
        f"[rank{rank}]: step {step} nll 2.{rank}\n"
        + "".join(f"[rank{rank}]: {line}\n" for line in SAVING.splitlines())
        for rank in range(4)
        for step in (9,)
    )[:-10]
    + "\n"
)
NEAR_MISSES = {
    "all end at one step": logs_of(trainer),
    "one is a step ahead in its print": logs_of(trainer, r5=trainer(5, 117)),
    "cut at different places": {rank: trainer(rank, 118 - 3 * rank) for rank in RANKS},
    "one printed a warning of its own": logs_of(
        trainer, r2=trainer(2) + "download was slow, trying the mirror\n"
    ),
    "cut within a line, where one was about to print the same": {
        None: interleaved(logs_of(server, r5=server(5, 5)))[None] + "[ran"
    },
    "cut within a line": logs_of(trainer, r5=IN_SHARD + "step 1"),
    "a paste that ends within a line": {None: PASTED},
    "buffered": logs_of(trainer, r5=(2 * trainer(5, 117, first=1))[:4096]),
    "only rank 0 prints steps": {
        rank: trainer(0) if rank == 0 else f"joined as worker {rank} of 8\nmodel has 1 parameters\n"
        for rank in RANKS
    },
    "rank 0 prints more": logs_of(trainer, r0=trainer(0).replace(" ms\n", " ms\nlr now 0.1\n")),
    "rank 0 prints more, once": logs_of(
        trainer, r0=trainer(0).replace("joined", "config: bs 8\njoined") + "saving to /ckpt/118\n"
    ),
    "pipeline stages print different things": {
        rank: "".join(f"stage {rank} step {n}\n{what} {n}\n" for n in range(30))[
            : -3 if rank else None
        ]
        for rank, what in enumerate(
            ("embedded batch", "sent activations", "got activations", "loss of batch")
        )
    },
    "the last stage has no one to send to": {
        rank: "".join(
            f"micro-batch {n} forward\n" + (f"micro-batch {n} sent\n" if rank < 3 else "")
            for n in range(30)
        )
        for rank in range(4)
    },
    "several in several phases": logs_of(
        trainer, **{f"r{r}": trainer(r, 117) + f"opening shard {r}\n" for r in (1, 2, 5)}
    ),
    "other clocks, one place": logs_of(solver),
    "two ranks, one of which prints more": {
        0: "loading\nmodel loaded\nserver ready\n",
        1: "loading\nmodel loaded\n",
    },
    "ranks read shards at times of their own": {
        rank: "".join(f"shard {rank * 100 + n} read\n" for n in range(5 + 3 * rank))
        for rank in RANKS
    },
    "one printed the same with another value": {
        rank: f"loading\nIFNAME=eth{rank // 7}\nHCA=mlx5_{rank // 7}\n" for rank in RANKS
    },
    "a sign of life that all repeat, cut between two of them": {
        None: "".join(
            f"INFO shard-manager: Waiting for shard to be ready... rank={rank}\n"
            for rank in (2, 3, 0, 3, 1, 2, 0, 1, 2, 3, 1, 0, 2, 3, 1, 3)
        )
    },
    "a log with other lines altogether": logs_of(trainer, r5="listening on port 80\nready\n"),
    "Gloo counts peers, and two ranks print into each other": {
        None: "".join(CONNECTED.format(r=r) for r in (3, 1, 0, 2, 0, 1, 2))
        + "[Gloo] Rank [Gloo] Rank 3 is connected to 32 peer ranks.  is connected to Expected\n"
        + "".join(CONNECTED.format(r=r) for r in (0, 1, 2))
    },
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_logs_that_only_look_so_name_nobody(name: str) -> None:
    """Cut or buffered logs, loggers of one rank, other roles, other clocks are no hang's sign."""
    assert phase_of(NEAR_MISSES[name]) is None
