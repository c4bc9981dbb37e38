"""Who looks guilty and is not: what a rank did after, what others did as well, who is no rank."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from log_docs import diagnosed_files


def culprits(text: str) -> tuple[int, ...]:
    """Return whom the first finding of one log blames."""
    finding = next(iter(diagnosed_files({"job.log": text}).findings), None)
    return (finding.culprit_ranks or ()) if finding is not None else ()


GAVE_UP = "".join(
    f"[rank{rank}]:[E302 09:10:11.000000123 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=8, "
    "NumelOut=8, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    for rank in range(3)
)
IN_CALL = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "/srv/train.py", line 88, in <module>\n'
    "[rank3]:     dist.all_reduce(loss)\n"
)
ABORTED = "NCCL communicator was aborted on rank 3."


@pytest.mark.parametrize(
    "aborted",
    [
        f"[rank3]: RuntimeError: {ABORTED}\n",
        f"{IN_CALL}[rank3]: torch.distributed.DistBackendError: {ABORTED}\n",
    ],
    ids=["line", "traceback"],
)
def test_an_abort_is_what_follows(aborted: str) -> None:
    """The rank whose communicator was aborted had been waiting as well; one that died had not."""
    assert culprits(GAVE_UP + aborted) == ()
    assert culprits(GAVE_UP + "[rank3]: ValueError: bad row 7\n") == (3,)


FRAME = '  File "/srv/run.py", line 4, in main\n    load()\n'
RAISED = f"Traceback (most recent call last):\n{FRAME}TypeError: no path, but 'list'\n"


def table(failed: tuple[int, ...], ended: tuple[int, ...]) -> str:
    """Print torchrun's table of these ranks."""
    code = dict.fromkeys(failed, 1) | dict.fromkeys(ended, -15)
    rows = (
        f"[{n}]:\n  time      : 2026-01-16_02:37:57\n  host      : n1\n  rank      : {rank} "
        f"(local_rank: {rank})\n  exitcode  : {code[rank]} (pid: {70 + rank})\n"
        "  error_file: <N/A>\n"
        for n, rank in enumerate(code)
    )
    return "train.py FAILED\nFailures:\n" + "".join(rows)


def test_who_was_ended_while_it_failed_alike_has_failed_too() -> None:
    """More have printed the exception than the launcher saw fail: it is not theirs alone."""
    after = table((2, 5), (0, 1, 3, 4))

    assert culprits(RAISED * 2 + after) == (2, 5)
    assert culprits(RAISED * 3 + after) == ()


SPAWN = "/usr/lib/python3/site-packages/torch/multiprocessing/spawn.py"
INTERRUPTED = f"""\
^CTraceback (most recent call last):
  File "/srv/train.py", line 364, in <module>
    mp.spawn(work, nprocs=3)
  File "{SPAWN}", line 340, in spawn
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
  File "{SPAWN}", line 296, in start_processes
    while not context.join():
  File "{SPAWN}", line 140, in join
    ready = multiprocessing.connection.wait(
KeyboardInterrupt
"""


def test_who_spawned_the_ranks_is_none() -> None:
    """Its stack is not that of the rank which spoke last."""
    spoken = "".join(f"[Rank {rank}]: Gather outputs\n" for rank in (2, 1, 0))
    report = diagnosed_files({"out.txt": f"{spoken}[Rank 0]: Compute again\n{INTERRUPTED}"})

    assert not any("spawned" in row.activity for row in report.ranks)


def pods(*texts: str) -> Mapping[str, str]:
    """Name one log for each pod."""
    return {f"train-worker-{number}.log": text for number, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("started", "named"),
    [("world_size=4\n", (3,)), ("world_size=32\n", ()), ("nproc_per_node=8\n", ())],
)
def test_the_number_of_a_pod_is_a_rank_where_something_says_so(
    started: str, named: tuple[int, ...]
) -> None:
    """A pod of several GPUs has several ranks."""
    crashed = f"{started}Segmentation fault (core dumped)\n"
    report = diagnosed_files(pods(started, started, started, crashed))

    assert (report.findings[0].culprit_ranks or ()) == named


MISSING = "[Rank 0]: Ranks {} failed to pass monitoredBarrier in 4000 ms\n"


def test_all_others_are_not_the_odd_ones() -> None:
    """Who waits alone for all others may be the one that went elsewhere."""
    assert culprits(MISSING.format("1, 3")) == (1, 3)
    assert culprits(MISSING.format("1, 2, 3")) == ()
    assert culprits("world_size=8\n" + MISSING.format("1, 2, 3")) == (1, 2, 3)


@pytest.mark.parametrize(
    "line",
    [
        (
            "RuntimeError: Expected to mark a variable ready only once. This error is caused by "
            "one of the following reasons: 1) Use of a module parameter outside the `forward` "
            "function."
        ),
        (
            "Abort(5) on node {rank} (rank {rank} in comm 0): application called "
            "MPI_Abort(MPI_COMM_WORLD, 5) - process {rank}"
        ),
    ],
    ids=["said", "named"],
)
def test_what_most_ranks_say_of_themselves_is_the_fault_of_none(line: str) -> None:
    """Of eight, one or two that say so are to blame; five of six are not."""
    said = [f"[rank{rank}]: {line.format(rank=rank)}\n" for rank in range(8)]
    up = "".join(f"[rank{rank}]: model is up\n" for rank in range(8))

    assert culprits(up + said[3]) == (3,)
    assert culprits(up + said[3] + said[5]) == (3, 5)
    assert culprits(up + "".join(said[1:6])) == ()
    assert culprits("".join(said)) == ()


@pytest.mark.parametrize(("raised", "is_cause"), [("EOFError", False), ("EOFError: no row", True)])
def test_the_end_of_a_pipe_is_of_the_process_behind_it(raised: str, *, is_cause: bool) -> None:
    """A helper that multiprocessing started sees its parent end; with words it is an error."""
    helper = (
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/multiprocessing/process.py", line 315, in _bootstrap\n'
        f"    self.run()\n{raised}\n"
    )
    findings = diagnosed_files({"job.log": GAVE_UP + helper}).findings

    assert (findings[0].category == "rank-died") is is_cause


TABLE = (
    "E1123 15:05:23.065000 14187 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    "(exitcode: 17) local_rank: 0 (pid: 14192) of binary: /env/bin/python\n"
)


@pytest.mark.parametrize(
    ("words", "named"), [("watchdog: no step for 20 s, giving up", None), ("no disk left", (0,))]
)
def test_who_ends_itself_as_nothing_goes_on(words: str, named: tuple[int, ...] | None) -> None:
    """The exit code of a program's own watchdog is an effect of whoever is late."""
    text = "".join(f"12:00:0{n} [rank {n}] step 75 loss 0.3\n" for n in range(4))
    log = f"{text}12:00:20 [rank 0] {words}\n{TABLE}"
    first = diagnosed_files({"job.log": log}).findings[0]
    assert first.culprit_ranks == named


STEPS = "".join(f"[rank{rank}]: step 1\n" for rank in range(4))


def test_one_rank_alone_in_trouble_is_named() -> None:
    """In words that nobody knows; rank 0, which prints for all, only as a possibility."""
    words = "[rank{}]: ERROR corrupt record, leaving the loop\n"

    assert culprits(STEPS + words.format(2)) == (2,)
    for text in (words.format(0), words.format(1) + words.format(2), "ERROR corrupt record\n"):
        report = diagnosed_files({"job.log": STEPS + text})
        assert not any(f.culprit_ranks and f.confidence >= 0.5 for f in report.findings)


def test_an_exception_of_cpp_without_words_ended_its_rank() -> None:
    """The line below may be cut, or another rank's; of torch's own nothing is told by that."""
    thrown = "[rank2]: terminate called after throwing an instance of '{}'\n"

    assert culprits(STEPS + thrown.format("std::runtime_error")) == (2,)
    assert culprits(STEPS + thrown.format("c10::DistBackendError")) == ()
    above = "[rank2]: [E ProcessGroupNCCL.cpp:495] we are taking the entire process down.\n"
    assert culprits(STEPS + above + thrown.format("std::runtime_error")) == ()


def test_who_alone_cannot_open_a_port_is_named() -> None:
    """Where most say so, as if each were started as the first, none of them is the odd one."""
    taken = "[rank{}]: RuntimeError: Address already in use\n"

    assert culprits(STEPS + taken.format(0)) == (0,)
    assert culprits(STEPS + "".join(map(taken.format, range(4)))) == ()


HOOK = """Exception ignored in atexit callback: <function _shutdown at 0x7f3a>
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/tracker/patches.py", line 295, in _on_exit
    hook()
ConnectionError: HTTPSConnectionPool(host='tracker.test', port=443): Max retries exceeded
"""


@pytest.mark.parametrize(("end", "well"), [("Training complete in 50m02s\n", True), ("", False)])
def test_what_a_hook_does_not_reach_after_the_end_is_no_cause(end: str, *, well: bool) -> None:
    """The job has done its work; in the middle of it the same line tells of trouble."""
    steps = "".join(f"[rank0] step {n}/3000 loss 0.{n}\n" for n in range(10, 20))

    report = diagnosed_files({"train.out": steps + end + HOOK})

    assert [f.signature for f in report.findings[:1]] == ([] if well else ["hub-unreachable"])


AGENT = "I0814 06:51:36.1 1 torch/distributed/elastic/agent/server/api.py:{}] "
SUCCEEDED = AGENT.format(879) + "[default] worker group successfully finished. Waiting 300 seconds"
FAILED = AGENT.format(922) + "Local worker group finished (WorkerState.FAILED). Waiting 300 seconds"
WAITED = AGENT.format(936) + "Done waiting for other agents. Elapsed: 0.61 seconds"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [((SUCCEEDED, WAITED), "healthy"), ((SUCCEEDED,), "healthy"), ((), "inconclusive")],
)
def test_torchruns_agent_tells_that_its_workers_have_succeeded(
    said: tuple[str, ...], verdict: str
) -> None:
    """Its lines are a library's, and the only ones that say how steps that just stop ended."""
    steps = "".join(f"2025-08-14 06:4{n}:20 step={n}00 loss=1.{n}\n" for n in range(9))

    log = steps + "".join(f"{line}\n" for line in said)

    assert diagnosed_files({"node0.log": log}).verdict == verdict
    assert diagnosed_files({"node0.log": f"{steps}{FAILED}\n{WAITED}\n"}).verdict != "healthy"


CAUGHT = """[rank1]: 2026-03-04 03:01:35 sample 7 cannot be read
[rank1]: Traceback (most recent call last):
[rank1]:   File "data.py", line 31, in load
[rank1]:     decode(path)
[rank1]: DecodeError: not an image
"""
FATAL = """[rank2]: Traceback (most recent call last):
[rank2]:   File "train.py", line 71, in main
[rank2]:     check(loss)
[rank2]: AssertionError: loss is nan
"""


def _at_work(first: int, *, labels: tuple[str, ...]) -> str:
    """Write ten iterations a second from ``first`` on, by everyone in turn."""
    return "".join(
        f"{label}2026-03-04 03:0{n // 6}:{n % 6}0 it {n}\n"
        for n in range(first, first + 8)
        for label in labels
    )


@pytest.mark.parametrize(
    "labels", [("[rank0]: ", "[rank1]: ", "[rank2]: "), ("",)], ids=["by each", "for all"]
)
def test_an_exception_after_which_the_steps_go_on_by_their_times_was_caught(
    labels: tuple[str, ...],
) -> None:
    """Whose words of its own they are; what is printed below and is older was only held back."""
    went_on = _at_work(2, labels=labels) + CAUGHT + _at_work(10, labels=labels) + FATAL
    held_back = _at_work(2, labels=labels) + CAUGHT + _at_work(4, labels=labels)

    assert culprits(went_on) == (2,)
    failed = diagnosed_files({"job.log": went_on.removesuffix(FATAL) + table((1,), ())})
    assert failed.findings[0].title.startswith("Rank 1 ended with DecodeError")
    assert culprits(held_back) == (1,)
