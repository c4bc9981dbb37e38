"""One job, evidence of different kinds for its ranks, one answer.

Ranks 0 and 1 are known from one kind of evidence, ranks 2 and 3 from another, rank 4, the one
that is to blame, from a third: whichever they are, the diagnosis is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import small_jobs
from fr_docs import entry, header, open_entry, pickled
from log_docs import diagnosed_files, document, reader
from small_jobs import ALL_REDUCE, report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.report import Report

WORLD = 5
CULPRIT = 4
C10D = "torch/distributed/distributed_c10d.py"
Files = dict[str, str | bytes]


def stack(rank: int, *frames: str) -> Files:
    """Write what py-spy prints of a rank."""
    lines = "".join(f"    {frame}\n" for frame in frames)
    return {
        f"stack_rank{rank}.txt": f"Process {100 + rank}: python train.py\nPython v3.11.7\n\n"
        f'Thread {100 + rank} (idle): "MainThread"\n{lines}'
    }


def in_call(op: str, line: int) -> Callable[[int], Files]:
    """Write a stack that shows a collective."""
    return lambda rank: stack(
        rank, f"{op} ({C10D}:3100)", "wrapper (torch/distributed/c10d_logger.py:83)",
        f"train (train.py:{line})", "<module> (train.py:60)",
    )  # fmt: skip


def watchdog(op: str) -> Callable[[int], Files]:
    """Write what NCCL's watchdog prints of a rank whose call number 7 does not end."""
    place = "ProcessGroupNCCL.cpp"
    return lambda rank: {
        f"rank{rank}.log": f"[rank{rank}]:[E1122 06:40:00.5 {place}:616] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum=7, OpType={op}, NumelIn=8, "
        "NumelOut=8, Timeout(ms)=600000) ran for 600080 milliseconds before timing out.\n"
        f"[rank{rank}]:[E1122 06:40:00.6 {place}:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Exception (either an error or timeout) detected by watchdog at work: 7, last enqueued "
        "NCCL work: 7, last completed NCCL work: 6.\n"
    }


def recorder(op: str | None) -> Callable[[int], Files]:
    """Write a recorder's dump: six calls done, and the seventh open (None: never issued)."""
    groups = header(("0", "default_pg", range(WORLD)))
    done = [entry(number) for number in range(6)]
    last = [open_entry(6, profiling_name=f"nccl:{op}")] if op else []
    return lambda rank: {f"comm_lib_trace_rank_{rank}": pickled(groups, [*done, *last])}


def printed_stack(op: str, line: int) -> Callable[[int], Files]:
    """Write a log in which faulthandler printed where the rank stood."""
    frames = f'  File "/x/{C10D}", line 3100 in {op}\n' if op else ""
    return lambda rank: {
        f"rank{rank}.log": f"[rank{rank}] step 117 loss 2.31\nThread 0x00007f3c8a7fd740 "
        f'(most recent call first):\n{frames}  File "/x/train.py", line {line} in '
        f'{"train" if op else "evaluate"}\n  File "/x/train.py", line 60 in <module>\n'
    }


def exit_rows(ends: dict[int, int]) -> Files:
    """Write torchrun's table of failures."""
    rows = "".join(
        f"[{number}]:\n  time      : 2026-11-22_06:50:00\n  host      : node1\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {100 + rank})\n"
        "  error_file: <N/A>\n  traceback : "
        f"{'Signal ' + str(-code) + ' received by PID ' + str(100 + rank) if code < 0 else 'no'}\n"
        for number, (rank, code) in enumerate(ends.items())
    )
    return {
        "torchrun.log": f"{'=' * 60}\ntrain.py FAILED\n{'-' * 60}\nFailures:\n{rows}{'=' * 60}\n"
    }


WAITING = {
    "stack": in_call("all_reduce", 40),
    "watchdog": watchdog("ALLREDUCE"),
    "recorder": recorder("all_reduce"),
    "printed-stack": printed_stack("all_reduce", 40),
}
ELSEWHERE: dict[str, Callable[[int], Files]] = {
    "stack": lambda rank: stack(rank, "evaluate (evaluate.py:33)", "train (train.py:38)"),
    "recorder": recorder(None),
    "printed-stack": printed_stack("", 38),
    "exit-row": lambda rank: exit_rows({**dict.fromkeys(range(rank), -6), rank: -15}),
}
OTHER_CALL = {
    "stack": in_call("broadcast", 42),
    "watchdog": watchdog("BROADCAST"),
    "recorder": recorder("broadcast"),
    "printed-stack": printed_stack("broadcast", 42),
}
ENDED: dict[str, Callable[[int], Files]] = {
    "sigkill-row": lambda rank: exit_rows({rank: -9}),
    "exit-row": lambda rank: exit_rows({rank: 1}),
    "traceback": lambda rank: {
        f"rank{rank}.log": "step 117 loss 2.31\nTraceback (most recent call last):\n"
        '  File "/x/train.py", line 36, in train\n    batch = next(batches)\n'
        "ValueError: bad row 17 in shard 3\n"
    },
    "crash": lambda rank: {
        f"rank{rank}.log": "step 117 loss 2.31\nFatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f3c8a7fd740 (most recent call first):\n"
        '  File "/x/train.py", line 36 in train\n'
    },
}
FAULTS = {
    "elsewhere": (ELSEWHERE, {"missing-rank-in-collective", "rank-spinning"}),
    "other-call": (OTHER_CALL, {"collective-mismatch"}),
    "ended": (ENDED, {"rank-died", "rank-oom-killed"}),
}
MIXTURES = [
    (fault, first, second, last)
    for fault, (kinds, _) in FAULTS.items()
    for first, second in itertools.combinations_with_replacement(WAITING, 2)
    for last in kinds
]


@pytest.mark.parametrize(("fault", "first", "second", "last"), MIXTURES)
def test_evidence_of_any_kind_gives_one_answer(
    fault: str, first: str, second: str, last: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Rank 4 is named, and why, whatever each rank is known from."""
    kinds, categories = FAULTS[fault]
    files: Files = {}
    for rank in range(WORLD - 1):
        files.update(WAITING[first if rank < 2 else second](rank))
    files.update(kinds[last](CULPRIT))
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)

    assert main([str(tmp_path), "--format", "json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)

    shown = [(f.signature, f.culprit_ranks, f.confidence, f.caused_by) for f in report.findings]
    leading = report.findings[0]
    assert leading.category in categories, shown
    assert leading.culprit_ranks == (CULPRIT,), shown
    assert [f.culprit_ranks for f in report.findings[1:] if f.caused_by is None] == [], shown
    assert not [row for row in report.ranks if "not seen" in row.activity], report.ranks


@pytest.mark.parametrize(
    ("waited", "ends", "named"),
    [
        pytest.param((0, 1, 2), {0: -6, 1: -6, 2: -6, 3: -15}, (3,), id="most had given up"),
        pytest.param((0,), {0: -6, **dict.fromkeys(range(1, 8), -15)}, None, id="only one had"),
        pytest.param((0, 1, 2, 3), {0: -6, 1: -6, 2: -15, 3: -6}, None, id="it had waited, too"),
    ],
)
def test_who_was_ended_by_the_launcher_was_elsewhere_only_where_most_had_given_up(
    waited: tuple[int, ...], ends: dict[int, int], named: tuple[int, ...] | None,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One watchdog is enough for a launcher to end all others, wherever they are."""
    files = exit_rows(ends)
    for rank in waited:
        files.update(WAITING["watchdog"](rank))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    assert main([str(tmp_path), "--format", "json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)

    assert report.findings[0].culprit_ranks == named
    assert named is not None or "not reached" not in report.headline


def test_a_rank_of_which_only_a_log_was_read_is_not_left_out_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where its log does not say where it stands, not all ranks stand in the call."""
    files: Files = {"rank2.log": "".join(f"step {step} loss 1.0\n" for step in range(9))}
    for rank in range(2):
        files.update(WAITING["stack"](rank))
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)

    assert main([str(tmp_path), "--format", "json"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)

    assert "All ranks" not in report.headline
    assert [row.activity for row in report.ranks if row.rank == 2] == ["last line: step 8 loss 1.0"]


LOOPBACK = (
    "[rank0]:[W1103 10:00:00.5 ProcessGroupGloo.cpp:514] Warning: Unable to resolve hostname to a "
    "(local) address. Using the loopback address as fallback. Manually set the network interface "
    "to bind to with GLOO_SOCKET_IFNAME. (function operator())\n"
)


def beside(*frames: str) -> dict[str, str]:
    """Write the stacks of rank 0 in all_reduce and of rank 1 elsewhere."""
    files = {**in_call("all_reduce", 40)(0), **stack(1, *frames, "<module> (train.py:60)")}
    return {name: str(text) for name, text in files.items()}


def test_a_warning_with_a_fallback_stands_below_a_lagging_rank() -> None:
    """Gloo took the loopback address; ranks that stand in a collective have met all the same."""
    elsewhere = beside(
        "readinto (socket.py:707)", "getresponse (http/client.py:1428)", "f (t.py:3)"
    )
    first = diagnosed_files({**elsewhere, "train.log": LOOPBACK}).findings[0]

    assert (first.signature, first.culprit_ranks) == ("network-io-blocked", (1,))


def test_nobody_is_sent_to_the_collective_for_a_rank_that_compiles() -> None:
    """A compiler that hangs is no branch around a collective."""
    inductor = "torch/_inductor/async_compile.py"
    first = diagnosed_files(beside(f"_wait_futures ({inductor}:560)", "f (t.py:3)")).findings[0]

    assert (first.signature, first.culprit_ranks) == ("rank-compiling", (1,))
    assert "on every rank" not in " ".join(first.remedies)


UNRESOLVED = (
    "[W1123 02:04:19.925830108 socket.cpp:764] [c10d] The IPv6 network addresses of "
    "(trainer-0.svc, 29400) cannot be retrieved (gai error: -2 - Name or service not known).\n"
)


@pytest.mark.parametrize(
    ("stacks", "over"),
    [
        ({0: ALL_REDUCE, 1: small_jobs.ELSEWHERE}, True),
        ({0: ALL_REDUCE}, False),
        ({0: small_jobs.INIT, 1: small_jobs.INIT}, False),
    ],
    ids=["at work", "another rank was not seen", "starting"],
)
def test_trouble_to_start_in_a_log_is_over_once_the_job_is_seen_at_work(
    stacks: dict[int, str], over: bool
) -> None:
    """Names are resolved late as often as not; what the ranks do now is what counts."""
    facts = [*still(stacks, world=2), *reader().read(document(UNRESOLVED * 3))]
    report = report_of(facts)
    ids = [finding.signature for finding in report.findings]
    assert ("store-name-unresolved" in ids) is not over
    assert not over or report.findings[0].culprit_ranks == (1,)


def test_a_job_at_work_has_met_all_the_same() -> None:
    """One rank prints its steps; the warning in the log of another node is none of its own."""
    files = {"h0.log": LOOPBACK + "step 1 loss 2.0\nstep 2 loss 1.9\n", "h1.log": LOOPBACK[9:]}
    found = {finding.signature for finding in diagnosed_files(files).findings}
    assert "gloo-on-loopback" not in found
