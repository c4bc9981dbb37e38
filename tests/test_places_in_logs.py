"""Stacks and tracebacks inside logs place the rank that printed them, however it is labelled."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence

import pytest
from log_docs import diagnosed_files

SITE = "/opt/env/lib/python3.11/site-packages/torch"
C10D = f"{SITE}/distributed/distributed_c10d.py"
LOADER = (
    (f"{SITE}/utils/data/dataloader.py", "_try_get_data"),
    ("/usr/lib/python3.11/multiprocessing/queues.py", "get"),
    ("/usr/lib/python3.11/selectors.py", "select"),
)
HEAD = "Traceback (most recent call last):\n"
ABORTED = "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 1."
CLOSED = "RuntimeError: [gloo/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:4711"


def raised(end: str, place: str, *inner: tuple[str, str]) -> str:
    """Make a traceback from "train.py:7" and the frames of libraries inside it."""
    file, _, line = place.partition(":")
    own = f'  File "/w/main.py", line 90, in <module>\n  File "/w/{file}", line {line}, in step\n'
    rest = (f'  File "{path}", line 9, in {function}\n    call()\n' for path, function in inner)
    return HEAD + own + "".join(rest) + end + "\n"


def in_op(op: str, place: str = "train.py:7", end: str = "KeyboardInterrupt") -> str:
    """Make the traceback of a rank that was stopped, or gave up, in a collective."""
    return raised(end, place, (C10D, op))


def dumped(place: str, *inner: tuple[str, str]) -> str:
    """Make what faulthandler prints when its timer runs out; forked processes share the id."""
    file, _, line = place.partition(":")
    frames = "".join(f'  File "{path}", line 9 in {function}\n' for path, function in inner)
    own = f'  File "/w/{file}", line {line} in step\n  File "/w/main.py", line 90 in <module>\n'
    return f"Timeout (0:05:00)!\nThread 0x00007f11aa22b740 (most recent call first):\n{frames}{own}"


STOPPED = [in_op("all_reduce")] * 3 + [raised("KeyboardInterrupt", "data.py:3", *LOADER)]
GAVE_UP = [in_op("all_gather", "eval.py:31", ABORTED)] * 3 + [in_op("barrier", "ck.py:2", ABORTED)]
DUMPED = [dumped("train.py:7", (C10D, "all_reduce"))] * 3 + [dumped("buffer.py:50")]

Label = Callable[[int], str]


def woven(texts: Sequence[str], label: Label) -> str:
    """Write the lines of all ranks in turn, each with its label."""
    lines = [[label(n) + line for line in text.splitlines()] for n, text in enumerate(texts)]
    return "".join(f"{line}\n" for row in itertools.zip_longest(*lines) for line in row if line)


def headed(texts: Sequence[str], label: Label) -> str:
    """Write one rank after the other, each below its label."""
    return "".join(f"{label(n)}{text}\n" for n, text in enumerate(texts))


@pytest.mark.parametrize(
    "label",
    [
        lambda n: f"[default{n}]:",
        lambda n: f"[rank{n}]: ",
        lambda n: f"[1,{n}]<stderr>:",
        lambda n: f"[{n}]<stderr>:",
        lambda n: f"Wed Mar  4 05:06:07 2026[{n}]<stderr>:",
        lambda n: f"rank={n} ",
        lambda n: f"rank {n} | ",
        lambda n: f"2026-03-04 05:06:07 INFO rank={n} ",
        lambda n: f"Process {n}: ",
        lambda n: f"worker-{n // 2}: [rank{n}]: ",
        lambda n: f"(VllmWorker rank={n} pid={100 + n}) ",
        lambda n: f"(VllmWorker TP{n} pid={100 + n}) ",
        lambda n: f"(Worker_TP{n} pid={100 + n}) ",
        lambda n: f"(EngineCore_DP{n} pid={100 + n}) ",
        lambda n: f"TP{n}: ",
        lambda n: f"prog{{{n}}}: ",
        lambda n: f"  prog{{{n}}}: ",
    ],
)
def test_labels_before_the_lines_of_a_stack(label: Label) -> None:
    """Ranks that were stopped stand where their tracebacks show them."""
    finding = diagnosed_files({"job.log": woven(STOPPED, label)}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("dataloader-blocked", (3,))
    assert finding.location is not None
    assert (finding.location.file, finding.location.line) == ("w/data.py", 3)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (lambda n: f"[DP{n // 2} TP{n % 2}] ", "DP1 TP1"),
        (lambda n: f"(Worker_DP{n // 2}_TP{n % 2} pid={100 + n}) ", "DP1 TP1"),
        (lambda n: f"(RayTrainWorker pid={100 + n}, ip=10.0.0.{n}) ", "Pid 103 on 10.0.0.3"),
    ],
)
def test_a_rank_within_groups_is_no_global_rank(label: Label, name: str) -> None:
    """Where the groups are not known the process is named as it names itself."""
    finding = diagnosed_files({"job.log": woven(STOPPED, label)}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("dataloader-blocked", None)
    assert finding.title.startswith(f"{name} gets no batch")


def test_ranks_of_a_group_in_a_larger_job() -> None:
    """TP0 to TP3 are not ranks 0 to 3 where the job has eight."""
    log = woven(STOPPED, lambda n: f"(Worker_TP{n} pid={100 + n}) ")
    log += (
        "node1:100:200 [0] NCCL INFO comm 0x1 rank 5 nranks 8 cudaDev 0 busId 1000 - Init START\n"
    )

    assert diagnosed_files({"job.log": log}).findings[0].culprit_ranks != (3,)


def _as_json(text: str, **fields: object) -> str:
    return json.dumps({"ts": "2026-03-04T05:06:07Z", "level": "ERROR", **fields, "message": text})


def _each(texts: Sequence[str], wrap: Callable[[str], str]) -> dict[str, str]:
    return {f"rank{number}.log": wrap(text) for number, text in enumerate(texts)}


def _docker(text: str) -> str:
    lines = (json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in text.splitlines())
    return "\n".join(lines) + "\n"


WRAPPED = {
    "a line an object": lambda texts: _each(texts, _docker),
    "all in one object": lambda texts: _each(texts, lambda text: _as_json(text) + "\n"),
    "beside its message": lambda texts: _each(
        texts, lambda text: json.dumps({"message": "failed", "exc_info": text}) + "\n"
    ),
    "with a rank": lambda texts: {
        "all.log": "".join(_as_json(text, rank=n) + "\n" for n, text in enumerate(texts))
    },
    "labels inside": lambda texts: {"all.log": _docker(woven(texts, lambda n: f"[rank{n}]: "))},
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize(
    ("texts", "category"),
    [(STOPPED, "dataloader-blocked"), (GAVE_UP, "collective-mismatch")],
    ids=["stopped", "gave up"],
)
def test_logs_of_containers(
    wrap: Callable[[Sequence[str]], dict[str, str]], texts: Sequence[str], category: str
) -> None:
    """Objects that a runtime or a logger makes of lines are taken off."""
    finding = diagnosed_files(wrap(texts)).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, (3,))


@pytest.mark.parametrize(
    "files",
    [
        {"job.log": woven(DUMPED, lambda n: f"[rank{n}]: ")},
        {"job.log": headed(DUMPED, lambda n: f"Process {n}:\n")},
        {"all.log": "".join(_as_json(text, rank=n) + "\n" for n, text in enumerate(DUMPED))},
        _each(DUMPED, _docker),
    ],
    ids=["labels", "headings", "objects", "containers"],
)
def test_dumps_of_faulthandler_in_logs(files: dict[str, str]) -> None:
    """They place the rank; processes with one thread id are not one process seen twice."""
    finding = diagnosed_files(files).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("missing-rank-in-collective", (3,))


def _task(number: int) -> str:
    address = f"pid={100 + number}, ip=10.0.0.{number}"
    return f"ray.exceptions.RayTaskError(RuntimeError): ray::Worker.run() ({address}, actor_id=a)\n"


def test_errors_of_ray_tasks() -> None:
    """Ray prints a task's traceback below a line of its own, which says whose it is."""
    log = headed([text.removeprefix(HEAD) for text in GAVE_UP], _task)

    finding = diagnosed_files({"driver.log": log}).findings[0]

    assert finding.category == "collective-mismatch"
    assert "pid 103 on 10.0.0.3 in barrier (w/ck.py:2)" in finding.title


def test_a_record_with_a_label_in_its_first_line() -> None:
    """What follows without a label belongs to it."""
    log = headed(GAVE_UP, lambda n: f"[2026-03-04 05:06:07 TP{n}] Scheduler hit an exception: ")

    finding = diagnosed_files({"server.log": log}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", (3,))


PG = "ProcessGroupNCCL.cpp:99] [PG ID 0 PG GUID 0(default_pg) Rank {0}]"
GATHERS = (
    f"[rank{{0}}]:[E810 03:04:11.1 {PG} Received a dump signal due to a collective timeout from  "
    "rank 1 and we will try our best to dump the debug info. Last enqueued NCCL work: {1}, last "
    "completed NCCL work: 77.\n[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/loop.py", line 5, in report\n[rank{0}]:     dist.all_gather(all, own)\n'
    '[rank{0}]:   File "/opt/torch/distributed/distributed_c10d.py", line 9, in all_gather\n'
    "[rank{0}]:     work.wait()\n[rank{0}]: RuntimeError: [/gloo/transport/tcp/pair.cc:547] "
    "Connection closed by peer [10.0.0.7]:57000\n"
)
BROADCASTS = (
    "[rank{0}]:[E810 03:04:10.1 ProcessGroupNCCL.cpp:683] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, "
    "Timeout(ms)=600000) ran for 600096 milliseconds before timing out.\n"
    f"[rank{{0}}]:[E810 03:04:10.1 {PG}  failure detected by watchdog at work sequence id: 78 PG "
    "status: last enqueued work: 79, last completed work: 77\n"
)


@pytest.mark.parametrize(("enqueued", "culprits"), [(77, (0, 4)), (78, None)])
def test_the_fewest_outside_a_broadcast(enqueued: int, culprits: tuple[int, ...] | None) -> None:
    """They are named where their counts tell that none has been in it; else one may have been."""
    logs = {
        f"{n}/stderr.log": GATHERS.format(n, enqueued) if n in {0, 4} else BROADCASTS.format(n)
        for n in range(8)
    }

    finding = diagnosed_files(logs).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", culprits)


CHAINED = "\nDuring handling of the above exception, another exception occurred:\n\n"


def test_the_first_of_a_chain_tells_where_a_rank_stood() -> None:
    """Who loses a peer in all_reduce and is stopped in its clean-up stood in all_reduce."""
    chain = in_op("all_reduce", end=CLOSED) + CHAINED + raised("KeyboardInterrupt", "train.py:80")
    texts = [chain, chain, STOPPED[0], STOPPED[3]]

    finding = diagnosed_files(_each(texts, str)).findings[0]

    assert (finding.culprit_ranks, finding.affected_ranks) == ((3,), (0, 1, 2))


def test_the_error_of_a_clean_up_is_an_echo() -> None:
    """Who lost a peer and then fails over it is not the one that failed."""
    echo = in_op("all_reduce", end=CLOSED) + CHAINED + raised("ValueError: no loss", "train.py:80")
    report = diagnosed_files(_each([echo, echo, raised("KeyError: 7", "data.py:3")], str))

    assert report.findings[0].culprit_ranks == (2,)


def test_who_prints_steps_after_an_exception_has_gone_on() -> None:
    """An exception that the program caught is no place, and no end."""
    steps = "".join(f"step {number} loss 0.5\n" for number in range(20))
    caught = in_op("all_reduce", end="torch.distributed.DistNetworkError: timed out") + "again\n"
    report = diagnosed_files(_each([steps, caught + steps], str))

    assert all(rank.state != "waiting" for rank in report.ranks)


def _gdb(*functions: str) -> str:
    frames = (f"#{n}  0x00007f in {name}\n" for n, name in enumerate(functions))
    return "".join(frames)


BARRIER = _gdb("opal_progress () from /lib/libopen-pal.so", "PMPI_Barrier () from /lib/libmpi.so")
HANDLER = ("waitpid () from /lib/libc.so.6", "report () from /lib/libapp.so")


@pytest.mark.parametrize(
    ("interrupted", "is_crash"), [("_int_free", True), ("abort", True), ("poll", False)]
)
def test_a_signal_in_the_middle_of_an_allocation_is_a_crash(
    interrupted: str, *, is_crash: bool
) -> None:
    """One that came in the middle of a wait is none."""
    stack = _gdb(*HANDLER) + (
        f"#2  <signal handler called>\n#3  0x00007f in {interrupted} () from /lib/libc.so.6\n"
        "#4  0x0000 in close_all () at fields.c:77\n"
    )
    files = {f"rank{n}.txt": BARRIER + "#2  0x00 in main () at solver.c:9\n" for n in (0, 1, 3)}

    finding = diagnosed_files({**files, "rank2.txt": stack}).findings[0]

    assert ((finding.category == "rank-died"), finding.culprit_ranks) == (is_crash, (2,))


def test_who_aborts_in_the_middle_of_a_call_has_crashed() -> None:
    """No signal's handler is on the stack: the debugger came first."""
    aborting = _gdb(
        *(
            f"{name} () from /lib/libc.so.6"
            for name in ("raise", "abort", "malloc_printerr", "free")
        ),
        "PMPI_Win_fence () from /lib/libmpi.so",
    )
    stacks = {"rank0.txt": BARRIER, "rank1.txt": aborting}
    files = {name: text + "#5  0x00 in main () at win.c:60\n" for name, text in stacks.items()}

    finding = diagnosed_files(files).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (1,))


@pytest.mark.parametrize(
    ("other", "category", "named"),
    [("PMPI_Finalize", "mpi-missing-rank", (0,)), ("PMPI_Barrier", "mpi-mismatch", None)],
)
def test_who_ends_the_program_meets_nobody_any_more(
    other: str, category: str, named: object
) -> None:
    """Of two, the one in MPI_Finalize left the other waiting; else nobody is named."""
    stacks = [
        _gdb("poll () from /lib/libc.so.6", f"{function} () from /lib/libmpi.so")
        + f"#2  0x00 in main () at solver.c:{line}\n"
        for function, line in ((other, 24), ("PMPI_Recv", 20))
    ]
    finding = diagnosed_files(_each(stacks, str)).findings[0]

    assert (finding.category, finding.culprit_ranks) == (category, named)
