"""Ranks that wait for data, for pools and for managers beside them."""

from __future__ import annotations

import pytest
from small_jobs import (
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    ELSEWHERE,
    LOADER,
    WORKER,
    dump,
    native,
    process,
    report_of,
    still,
)

from whyhang.analyzer.facts import Excerpt, Fact, Role, Who, replace

POOL = """
get (multiprocessing/pool.py:768)
map (multiprocessing/pool.py:367)
train (train.py:35)
<module> (train.py:60)
"""
POOLED = """
acquire (logging/__init__.py:914)
tokenize (data.py:7)
mapstar (multiprocessing/pool.py:48)
worker (multiprocessing/pool.py:125)
"""
SHARED = """
__enter__ (multiprocessing/synchronize.py:95)
tokenize (data.py:7)
mapstar (multiprocessing/pool.py:48)
worker (multiprocessing/pool.py:125)
"""


@pytest.mark.parametrize(
    ("woke", "other", "verdict"),
    [(33, LOADER, "healthy"), (2, LOADER, "hung"), (33, ALL_REDUCE, "hung")],
)
def test_ranks_that_wait_for_data_and_are_given_it(woke: int, other: str, verdict: str) -> None:
    """Both looks may find them in the wait; where it ended in between they go on.

    Not where another rank has waited for them all the time.
    """
    environ = {"WORLD_SIZE": "2"}
    facts: list[Fact] = []
    for look in (0, 1):
        for rank, stack in ((0, LOADER), (1, other)):
            times = woke if look and stack is LOADER else 0
            facts += [process(rank, look=look, environ=environ, woke=times)]
            facts += [dump(rank, stack, look=look)]

    assert report_of(facts).verdict == verdict


MANAGER = """
wait (threading.py:331)
wait (threading.py:629)
serve_forever (multiprocessing/managers.py:176)
_run_server (multiprocessing/managers.py:600)
main (data.py:20)
"""


def test_a_manager_beside_the_workers_waits_for_no_lock() -> None:
    """The process of a multiprocessing manager is a child of the rank like its workers."""
    asks = "_callmethod (multiprocessing/managers.py:822)\n" + WORKER.strip()
    facts = still({0: ALL_REDUCE, 1: LOADER})
    for pid, stack in ((4000, MANAGER), (4001, asks)):
        child = replace(process(1, pid=pid), role=Role.DATALOADER_WORKER, ppid=1001)
        facts += [replace(child, who=Who(pid=pid)), dump(None, stack, pid=pid)]

    finding = report_of(facts).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("dataloader-blocked", (1,))
    assert "multiprocessing manager" in finding.title


LEARNER = """
wait (multiprocessing/synchronize.py:268)
rollout (learner.py:33)
<module> (train.py:60)
"""
ACTOR = """
wait (multiprocessing/synchronize.py:349)
actor (actor.py:12)
run (multiprocessing/process.py:108)
"""


def test_who_waits_for_a_child_process_is_shown_with_what_that_does() -> None:
    """It may wait in turn; that nobody outside the process can help is said of threads alone."""
    facts = still({0: ALL_REDUCE, 1: LEARNER})
    for pid in (4000, 4001):
        child = replace(process(1, pid=pid), role=Role.DATALOADER_WORKER, ppid=1001)
        facts += [replace(child, who=Who(pid=pid)), dump(None, ACTOR, pid=pid)]

    finding = report_of(facts).findings[0]

    assert "waiting to be notified by another process at rollout" in finding.title
    assert "4000, 4001 are waiting to be notified by another process at actor (actor.py:12)" in (
        finding.explanation
    )
    assert "actor (actor.py:12)" in finding.evidence[-2].quote
    assert "outside the process" not in finding.explanation


FORKED = """
0x7f754a41e073 (torch/lib/libgomp.so.1:0)
0x7f754a41ca9d (torch/lib/libgomp.so.1:0)
mkl_blas_sgemm (torch/lib/libtorch_cpu.so:0)
tokenize (text.py:12)
worker (multiprocessing/pool.py:125)
_launch (multiprocessing/popen_fork.py:71)
_worker_entry (train.py:3)
"""


@pytest.mark.parametrize("forked", [True, False])
def test_a_forked_worker_waits_for_openmp_threads_of_its_parent(*, forked: bool) -> None:
    """They were not copied; who was started anew has threads of its own, which may be at work."""
    stack = FORKED if forked else FORKED.replace("popen_fork", "spawn")
    facts = still({0: ALL_REDUCE, 1: POOL})
    worker = replace(
        process(1, pid=4000), role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)
    )
    deep = dump(None, stack, pid=4000)
    frames = deep.threads[0].frames
    top = tuple(replace(frame, native=True) for frame in frames[:3])
    facts += [
        worker,
        replace(deep, threads=(replace(deep.threads[0], frames=(*top, *frames[3:])),)),
    ]

    finding = report_of(facts).findings[0]

    assert (finding.signature == "forked-openmp") is forked
    assert finding.culprit_ranks == (1,)
    assert "OpenMP threads" in finding.title


@pytest.mark.parametrize(("stack", "category"), [(POOLED, True), (SHARED, False)])
def test_a_pools_worker_may_wait_for_a_lock_copied_by_fork(stack: str, *, category: bool) -> None:
    """What a DataLoader's worker may fall into, a pool's may: not for a lock that they share."""
    facts = still({0: ALL_REDUCE, 1: POOL})
    worker = replace(
        process(1, pid=4000), role=Role.DATALOADER_WORKER, ppid=1001, who=Who(pid=4000)
    )
    facts += [worker, dump(None, stack, pid=4000)]

    finding = report_of(facts).findings[0]

    assert (finding.category == "fork-deadlock") is category
    assert finding.culprit_ranks == (1,)
    assert finding.location is not None
    assert finding.location.function == "tokenize"


@pytest.mark.parametrize(
    ("head", "function", "category"),
    [
        ("    for batch in part:", "epoch", "uneven-inputs"),
        ("    for parameter in part.parameters():", "epoch", "collective-mismatch"),
        ("    for p, handle in part:", "epoch", "collective-mismatch"),
        ("    if part:", "epoch", "collective-mismatch"),
        ('    for split in ("train", "test"):', "epoch", "collective-mismatch"),
        ("    for stage in part:", "Net.forward", "collective-mismatch"),
        ("    for batch in part:", "epoch.<locals>.<lambda>", "collective-mismatch"),
    ],
)
def test_back_from_a_function_is_past_its_loop(head: str, function: str, category: str) -> None:
    """The others are in a loop over data of the function that one rank has come back from."""
    inner = ALL_REDUCE.replace(
        "train (train.py:40)", f"{function} (train.py:12)\nmain (train.py:50)"
    )
    last = BARRIER.replace("main (train.py:55)", "main (train.py:51)")
    source = (
        Excerpt(
            file="train.py",
            first_line=10,
            lines=("def epoch(part):", head, "        dist.all_reduce(grad)"),
        ),
        Excerpt(
            file="train.py",
            first_line=49,
            lines=("    for number in range(9):", "        epoch(part)", "        dist.barrier()"),
        ),
    )

    finding = report_of([*still({0: inner, 1: inner, 2: last, 3: inner}), *source]).findings[0]

    assert finding.category == category
    assert finding.culprit_ranks == (2,)


@pytest.mark.parametrize(
    ("stack", "category", "culprits"),
    [
        (BROADCAST, "uneven-inputs", (2,)),
        (ELSEWHERE.replace("38", "41"), "missing-rank-in-collective", (1,)),
    ],
)
def test_those_in_the_loop_may_stand_in_different_calls(
    stack: str, category: str, culprits: tuple[int, ...]
) -> None:
    """What the one past the loop calls may answer one of them; who waits for nobody is late."""
    last = BARRIER.replace("main (train.py:55)", "train (train.py:55)")
    lines = ("    for batch in data:", *["        work()"] * 15, "    dist.barrier()")
    source = Excerpt(file="train.py", first_line=39, lines=lines)

    finding = report_of([*still({0: ALL_REDUCE, 1: stack, 2: last}), source]).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, culprits)


TASK = """
tokenize (data.py:7)
mapstar (multiprocessing/pool.py:48)
worker (multiprocessing/pool.py:125)
"""
IDLE_IN_POOL = "worker (multiprocessing/pool.py:114)"


@pytest.mark.parametrize(
    ("stack", "woke", "verdict"), [(TASK, 2, "slow"), (TASK, 0, "hung"), (IDLE_IN_POOL, 2, "hung")]
)
def test_a_rank_that_takes_results_of_its_pool_goes_on(stack: str, woke: int, verdict: str) -> None:
    """It wakes up for results alone; not where no worker is at a task that could give one."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        facts += [process(2, look=look, woke=woke if look else 0), dump(2, POOL, look=look)]
        seen = process(2, pid=4000, look=look, state="R" if stack is TASK else "S")
        seen = replace(seen, role=Role.DATALOADER_WORKER, ppid=1002)
        facts += [replace(seen, who=Who(pid=4000)), dump(None, stack, pid=4000, look=look)]

    report = report_of(facts)

    assert report.verdict == verdict
    assert report.findings[0].culprit_ranks == (2,)


SENDS = """
send (http/client.py:1009)
request (http/client.py:1294)
upload (train.py:66)
main (train.py:55)
"""


@pytest.mark.parametrize(("woke", "verdict"), [(2, "slow"), (0, "hung")])
def test_a_rank_whose_data_is_taken_bit_by_bit_goes_on(woke: int, verdict: str) -> None:
    """Who sends wakes up where there is room for more: what it has sent is read."""
    facts = still({0: BARRIER, 1: BARRIER})
    for look in (0, 1):
        facts += [process(2, look=look, woke=woke if look else 0), dump(2, SENDS, look=look)]

    assert report_of(facts).verdict == verdict


STEPS = """
def iterations():
    while residual() > 1e-4:
        yield stable_dt()
        if finite():
            count()
    close()

def solve():
    for dt in iterations():
        print(dt)

def main():
    solve()
    flux()
"""


@pytest.mark.parametrize(
    ("yields", "told"), [("yield stable_dt()", True), ("append(stable_dt())", False)]
)
def test_at_the_head_of_a_loop_over_a_generator_a_rank_is_in_the_loop(
    yields: str, *, told: bool
) -> None:
    """Half of the ranks converged first: nobody is the odd one, and the loop is named."""
    lines = tuple(STEPS.replace("yield stable_dt()", yields).strip().splitlines())
    inside = "PMPI_Allreduce (libmpi.so.40:1)\niterations (job.py:3)\nsolve (job.py:9)\n"
    outside = "PMPI_Gather (libmpi.so.40:1)\n"
    stacks = {0: f"{outside}main (job.py:14)\n", 1: f"{inside}main (job.py:13)\n"}
    facts = native(still({rank: stacks[rank % 2] for rank in range(4)}))

    finding = report_of([*facts, Excerpt(file="job.py", first_line=1, lines=lines)]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("mpi-mismatch", None)
    words = (
        "ranks 0,2 have left the loop `for dt in iterations()` (job.py:9) in which ranks 1,3 wait"
    )
    assert (words in finding.explanation) is told


LOOKS = "await_mark (train.py:8)\nmain (train.py:50)\n"
MARK = (
    "def await_mark(path):",
    "    while not path.exists():",
    "        time.sleep(0.2)",
)


@pytest.mark.parametrize(
    ("looking", "culprits"), [((1, 2), (0,)), ((2,), (2,)), ((0, 1, 2, 3), ())]
)
def test_a_file_that_all_but_one_look_for_has_to_come_from_that_one(
    looking: tuple[int, ...], culprits: tuple[int, ...]
) -> None:
    """One of several that looks alone is late itself."""
    ranks = range(3 if len(looking) < 4 else 4)
    stacks = {rank: LOOKS if rank in looking else ALL_REDUCE for rank in ranks}
    source = Excerpt(file="train.py", first_line=6, lines=MARK)

    finding = report_of([*still(stacks), source]).findings[0]

    assert (finding.culprit_ranks or ()) == culprits
    assert (finding.signature == "awaited-file-not-made") is (culprits == (0,))
