"""Ranks that stand in the program's own code, where no frame says that anybody waits."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files
from small_jobs import report_of, still

SOLVE = "exchange_halo (grid/halo.py:88) < relax (grid/solver.py:41) < main (run.py:12)"


def report(*rows: str) -> str:
    """Write a summary of stacks, a line for each rank or few: innermost first."""
    lines = []
    for row in rows:
        who, _, frames = row.partition(" | ")
        first, *outer = frames.split(" < ")
        function, _, place = first.partition(" (")
        lines.append(f"{who} stopped at {place.rstrip(')')} in {function}")
        lines += [
            f"    via {p.rstrip(')')} in {f}" for f, _, p in (o.partition(" (") for o in outer)
        ]
    return "\n".join(lines) + "\n"


def test_the_one_that_stands_elsewhere() -> None:
    """Four of five ranks stand at one line; the fifth is further on in the function around it."""
    text = report(
        f"ranks [0, 1, 3, 4] | {SOLVE}", "rank [2] | relax (grid/solver.py:55) < main (run.py:12)"
    )
    first = diagnosed_files({"hang.txt": text}).findings[0]

    assert (first.category, first.culprit_ranks) == ("missing-rank-in-collective", (2,))
    assert "solver.py:55" in first.title


@pytest.mark.parametrize(
    "rows",
    [
        (f"ranks [0, 1, 2, 3] | {SOLVE}",),
        (f"ranks [0, 1] | {SOLVE}", "ranks [2, 3] | relax (grid/solver.py:55) < main (run.py:12)"),
        (f"ranks [0, 1, 2] | {SOLVE}", "rank [3] | serve (monitor.py:9)"),
        (f"ranks [0, 1, 2] | {SOLVE}", "rank [3] | serve (grid/store.py:9) < main (run.py:12)"),
        (f"rank [0] | {SOLVE}", "rank [1] | relax (grid/solver.py:55) < main (run.py:12)"),
    ],
    ids=["all at one line", "half and half", "another program", "another branch", "of two"],
)
def test_nobody_stands_out(rows: tuple[str, ...]) -> None:
    """Without a majority, or a function that both are in, nobody is named."""
    findings = diagnosed_files({"hang.txt": report(*rows)}).findings

    assert not any(finding.culprit_ranks for finding in findings)


JOINS = """
_wait_for_tstate_lock (threading.py:1139)
join (threading.py:1119)
main (train.py:33)
<module> (train.py:40)
"""
SERVES = """
select (selectors.py:415)
serve_forever (socketserver.py:233)
main (train.py:32)
<module> (train.py:40)
"""


def test_main_threads_that_serve_or_join_are_not_where_the_job_is() -> None:
    """One rank answers health checks, the others wait for the thread that trains: no hang."""
    report = report_of(still({0: SERVES, 1: JOINS, 2: JOINS}))

    assert all(f.signature != "elsewhere-in-own-code" for f in report.findings)


def test_a_line_of_another_rank_between() -> None:
    """What a group's watchdog says as rank 5 of it does not go on from a line of rank 1."""
    lines = (
        "(Worker rank=1 pid=70) ERROR 01-02 10:00:00 [exec.py:5] Compile with `TORCH_USE_CUDA_DSA`",
        (
            "  what():  [PG ID 2 PG GUID 3 Rank 5] Process group watchdog thread terminated with "
            "exception: CUDA error: an illegal memory access was encountered"
        ),
    )
    findings = diagnosed_files({"serve.log": "\n".join(lines) + "\n"}).findings

    assert findings[0].category == "rank-died"
    assert not any(finding.culprit_ranks for finding in findings)


LOADER = """\
Process 4711: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread 4711 (idle): "MainThread"
    poll (multiprocessing/popen_fork.py:27)
    wait (multiprocessing/popen_fork.py:43)
    join (multiprocessing/process.py:149)
    _shutdown_workers (torch/utils/data/dataloader.py:1575)
    _next_data (torch/utils/data/dataloader.py:1336)
    __next__ (torch/utils/data/dataloader.py:701)
    epoch (train.py:77)
    <module> (train.py:120)
"""


def test_a_worker_that_does_not_end() -> None:
    """At the end of an epoch the main process joins a worker, which does not go."""
    first = diagnosed_files({"stack.txt": LOADER}).findings[0]

    assert (first.signature, first.category) == (
        "dataloader-shutdown-blocked",
        "dataloader-blocked",
    )


LIMIT = "The user-provided time limit for job execution has been reached:\n"


def timed(rank: int, *frames: str) -> str:
    """Write a dump by faulthandler's timer as mpirun tags it, which a rank writes in pieces."""
    tag = f"[1,{rank}]<stderr>:"
    rows = [f'  File "/w/{p}{tag}, line {tag}{n} in {f}' for p, n, f in map(str.split, frames)]
    head = ("Timeout (0:00:20)!", f"Thread 0x{tag}00007fd37008db8{rank} (most recent call first):")
    return "".join(f"{tag}{row}\n" for row in (*head, *rows))


@pytest.mark.parametrize(("end", "named"), [(LIMIT, (1,)), ("", None)])
def test_a_job_that_used_up_its_time(end: str, named: tuple[int, ...] | None) -> None:
    """Three ranks stand in a call that shows no frame, one in what stands above it."""
    waits = ('heat.py" 25 main', 'heat.py" 29 <module>')
    works = ('numeric.py" 41 roll', 'heat.py" 12 relax', 'heat.py" 24 main', 'heat.py" 29 <module>')
    text = "".join(timed(rank, *(works if rank == 1 else waits)) for rank in range(4))
    findings = diagnosed_files({"job.err": text + end}).findings

    assert [f.culprit_ranks for f in findings if f.signature == "elsewhere-in-own-code"] == (
        [named] if named else []
    )
