"""Jobs that ended by their own time limit: what the tracebacks of all ranks say together."""

from __future__ import annotations

import pytest
from log_docs import diagnosed
from test_places_in_logs import C10D, CLOSED, raised, woven

LIMIT = "RuntimeError: [gloo/tcp/unbound_buffer.cc:78] Timed out waiting 9000ms for {} operation"
SEND = raised(LIMIT.format("send"), "pipe.py:12", (C10D, "send"))
RECV = raised(LIMIT.format("recv"), "pipe.py:15", (C10D, "recv"))
KEY = "torch.distributed.DistStoreError: wait timeout after 9000ms, keys: /default_pg/0//run/best"
CODE = "    call()\n"


def tagged(*texts: str) -> dict[int | None, str]:
    return {None: woven(texts, lambda rank: f"[1,{rank}]<stderr>:[rank{rank}]: ")}


@pytest.mark.parametrize("source", [CODE, "    if step == 17:\n", "    recv(x, tag=batch - 1)\n"])
def test_sends_and_receives_that_all_ran_into_their_limit_do_not_pair(source: str) -> None:
    """Source lines below the frames are no steps that the job went on with."""
    left = raised(CLOSED, "pipe.py:15", (C10D, "recv")).replace(CODE, source)
    report = diagnosed(tagged(SEND, SEND, RECV, left))

    assert report.findings[0].category == "p2p-mismatch"
    assert report.findings[0].culprit_ranks is None
    assert "ranks 0-1 waited to send and ranks 2-3 to receive" in report.headline.lower()


@pytest.mark.parametrize(
    "texts",
    [
        (SEND, SEND, raised("ValueError: bad micro batch", "pipe.py:30")),
        (SEND, SEND, raised(LIMIT.format("recv"), "pipe.py:40", (C10D, "barrier"))),
        (RECV, RECV, RECV),
    ],
)
def test_they_may_pair_where_one_failed_or_stood_elsewhere(texts: tuple[str, ...]) -> None:
    report = diagnosed(tagged(*texts))
    assert "waited to send" not in report.headline


def test_who_waited_for_a_key_of_the_store_has_not_failed_itself() -> None:
    """Whoever should have set it is in the next call."""
    waits = raised(KEY, "run.py:31")
    barrier = raised(LIMIT.format("recv"), "run.py:40", (C10D, "barrier"))
    first = diagnosed({0: barrier, 1: waits, 2: waits}).findings[0]
    assert (first.category, first.culprit_ranks) == ("store-key-never-set", None)


def test_who_was_ended_before_it_could_say_anything_is_not_accused() -> None:
    """One rank failed by itself: that is whom the others lost."""
    lost = raised(CLOSED, "train.py:9", (C10D, "all_reduce"))
    up = "rank {} of 4 is up\n"
    failed = raised("ValueError: row 77 has 15 columns", "data.py:3")
    logs = {0: lost, 1: up.format(1), 2: lost, 3: up.format(3) + failed}
    accused = {
        rank
        for f in diagnosed(logs).findings
        if f.confidence >= 0.5
        for rank in f.culprit_ranks or ()
    }
    assert accused == {3}


@pytest.mark.parametrize(
    ("inner", "category"),
    [
        ((C10D, "all_gather_object"), "rank-died"),
        (("/usr/lib/python3.11/multiprocessing/reduction.py", "dump"), "dataloader-worker-died"),
    ],
)
def test_what_cannot_be_pickled_is_a_workers_only_where_one_was_started(
    inner: tuple[str, str], category: str
) -> None:
    frames = (inner, (C10D, "_object_to_tensor")) if "torch" in inner[0] else (inner,)
    failed = raised("TypeError: cannot pickle '_thread.lock' object", "run.py:9", *frames)
    lost = raised(CLOSED, "train.py:9", (C10D, "all_gather_object"))
    first = diagnosed({0: lost, 1: failed, 2: lost}).findings[0]
    assert (first.category, first.culprit_ranks) == (category, (1,))


TABLE = """\
Root Cause (first observed failure):
[0]:
  rank      : {first} (local_rank: {first})
  exitcode  : 1 (pid: 400{first})
Failures:
"""
ROW = """\
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 400{rank})
"""


def gave_up(rank: int) -> str:
    text = raised(LIMIT.format("recv"), "train.py:9", (C10D, "all_reduce"))
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "way", ["15, forcefully exiting via 9", "Signals.SIGTERM, forcefully exitting via SIGKILL"]
)
def test_who_had_to_be_killed_by_the_launcher_was_not_in_the_call(way: str) -> None:
    """It did not heed SIGTERM, being stopped or in the kernel; nothing killed it before."""
    force = f"W1 elastic/multiprocessing/api.py:9] Unable to shutdown process 4002 via {way}\n"
    rows = TABLE.format(first=1) + ROW.format(rank=0, code=-15) + ROW.format(rank=2, code=-9)
    first = diagnosed({None: gave_up(0) + gave_up(1) + force + rows}).findings[0]
    assert (first.category, first.culprit_ranks) == ("missing-rank-in-collective", (2,))


def test_the_last_words_of_who_was_ended_at_work_are_quoted() -> None:
    said = "[rank2]: evaluating on 5000 samples\n"
    rows = TABLE.format(first=1) + ROW.format(rank=0, code=1) + ROW.format(rank=2, code=-15)
    report = diagnosed({None: said + gave_up(0) + gave_up(1) + rows})
    assert report.findings[0].culprit_ranks == (2,)
    assert "after 'evaluating on 5000 samples'" in report.headline


def test_of_one_output_who_alone_lost_nobody_is_whom_they_lost() -> None:
    lost = raised(CLOSED, "train.py:9", (C10D, "all_reduce"))
    logs = "".join(f"rank {rank} of 3 at step {n}\n" for n in (8, 16) for rank in range(3))
    logs += "".join(f"[rank{rank}]: {line}\n" for rank in (0, 2) for line in lost.splitlines())
    first = diagnosed({None: logs}).findings[0]
    assert (first.category, first.culprit_ranks) == ("rank-died", (1,))
    ended = TABLE.format(first=0) + ROW.format(rank=1, code=-15)  # it was there to be ended
    assert diagnosed({None: logs + ended}).findings[0].culprit_ranks != (1,)


NO_KERNEL = "torch.AcceleratorError: CUDA error: no kernel image is available for execution"
ENDS = "\n".join(
    ROW.format(rank=rank, code=code).rstrip() for rank, code in ((1, 1), (0, -15), (2, 1))
)
FIRST = "E1 elastic/multiprocessing/api.py:9] failed (exitcode: 1) local_rank: 1 (pid: 4001) of\n"


def test_what_every_rank_prints_is_nobodys_whoever_was_seen_first() -> None:
    text = raised(f"{NO_KERNEL} on the device", "train.py:9")
    logs = "".join(f"[rank{rank}]: {line}\n" for rank in (2, 1, 0) for line in text.splitlines())
    first = diagnosed({None: logs + FIRST + ENDS + "\n"}).findings[0]
    assert (first.category, first.culprit_ranks) == ("not-distributed", None)


def test_who_was_ended_behind_another_failure_did_not_fail_alone() -> None:
    """The launcher saw rank 1 fail by itself before; what it printed is not in the text."""
    text = raised("TypeError: the mask must be a tensor", "model.py:31")
    logs = "".join(f"[rank0]: {line}\n" for line in text.splitlines())
    rows = ROW.format(rank=1, code=1) + ROW.format(rank=0, code=-15)
    assert diagnosed({None: logs + FIRST + rows}).findings[0].culprit_ranks is None
    rows = ROW.format(rank=1, code=-15) + ROW.format(rank=0, code=1)
    first = FIRST.replace("local_rank: 1 (pid: 4001)", "local_rank: 0 (pid: 4000)")
    assert diagnosed({None: logs + first + rows}).findings[0].culprit_ranks == (0,)


@pytest.mark.parametrize(
    ("printed_by", "culprits"), [((0, 3), (6,)), ((3,), None), ((0, 6), (0, 6))]
)
def test_what_several_print_whom_the_launcher_ended_befell_first_whom_it_saw_fail(
    printed_by: tuple[int, ...], culprits: tuple[int, ...] | None
) -> None:
    """Of those that it ends the launcher tells the pids; what one alone prints may be an echo."""
    text = raised("RuntimeError: CUDA error: an illegal memory access was encountered", "step.py:9")
    logs = "".join(f"[rank{rank}]: {line}\n" for rank in printed_by for line in text.splitlines())
    ends = "".join(
        f"W1 elastic/multiprocessing/api.py:8] Sending process {4000 + n} closing signal SIGTERM\n"
        for n in range(8)
        if n != 6
    )
    first = FIRST.replace("local_rank: 1 (pid: 4001)", "local_rank: 6 (pid: 4006)")
    logs = "".join(f"[rank{rank}]: up\n" for rank in range(8)) + logs
    finding = diagnosed({None: logs + ends + first + ROW.format(rank=6, code=1)}).findings[0]
    assert (finding.signature, finding.culprit_ranks) == ("cuda-illegal-access", culprits)


@pytest.mark.parametrize(("raising", "culprits"), [(5, None), (3, (0, 1, 2)), (1, (0,))])
def test_what_most_ranks_raise_is_the_fault_of_none_of_them(
    raising: int, culprits: tuple[int, ...] | None
) -> None:
    """The others ended otherwise; what they printed is not in the text."""
    text = raised("RuntimeError: dictionary changed size", "model.py:4")
    logs = "".join(
        f"[rank{rank}]: {line}\n" for rank in range(raising) for line in text.splitlines()
    )
    up = "".join(f"[rank{rank}]: up\n" for rank in range(8))
    first = diagnosed({None: up + logs}).findings[0]
    assert (first.category, first.culprit_ranks) == ("rank-died", culprits)


BAR = "[default0]: 52%|#####     | 21/40 [00:{:02}<00:13,  1.42it/s, loss=0.0053]"


def bars(*texts: str) -> str:
    """Return what torchrun keeps of ranks, the first of which draws a bar as it begins and ends."""
    said = woven(texts, lambda rank: f"[default{rank}]:[rank{rank}]: ")
    ends = (
        "W1123 12:02:50.145000 259 torch/distributed/elastic/multiprocessing/api.py:1028] Sending"
    )
    return f"{BAR.format(1)} {said}{BAR.format(14)}\n{ends} process 260 closing signal SIGTERM\n"


def test_a_bar_that_is_drawn_once_more_as_it_is_closed_is_no_step() -> None:
    """Nor does a launcher's line behind it speak for the rank whose bar ends in a bracket."""
    gather = raised(LIMIT.format("send"), "run.py:11", (C10D, "all_gather"))
    reduce = raised(CLOSED, "run.py:13", (C10D, "all_reduce"))
    report = diagnosed({None: bars(gather, reduce, reduce)})

    assert report.findings[0].culprit_ranks == (0,)
    assert report.findings[0].category == "collective-mismatch"
    assert [rank.rank for rank in report.ranks] == [0, 1, 2]


def test_a_bar_that_has_come_further_tells_that_the_rank_went_on() -> None:
    gather = raised(LIMIT.format("send"), "run.py:11", (C10D, "all_gather"))
    reduce = raised(CLOSED, "run.py:13", (C10D, "all_reduce"))
    text = bars(gather, reduce, reduce).replace(
        BAR.format(14), BAR.format(14).replace("21/", "30/")
    )
    assert diagnosed({None: text}).findings[0].culprit_ranks != (0,)


def test_a_limit_that_gloo_tells_without_its_place_is_no_error_of_the_rank() -> None:
    limit = raised("RuntimeError: Application timeout caused pair closure", "a.py:9")
    lost = raised(CLOSED, "b.py:9", (C10D, "barrier"))
    report = diagnosed({0: lost, 1: limit, 2: lost})
    assert "ended with RuntimeError" not in report.headline


@pytest.mark.parametrize(
    ("handler", "named"),
    [("_sigterm_notifier_fn", False), ("__call__", False), ("sync_flags", True)],
)
def test_a_rank_stood_where_the_signal_came_not_in_the_handler(handler: str, named: bool) -> None:
    """Its launcher ended it as it waited for data; what its handler waits for came after that."""
    loader = ("/env/site-packages/torch/utils/data/dataloader.py", "_try_get_data")
    closed = CLOSED.replace("gloo/", "gloo/gloo/transport/")
    lost = raised(closed, "fit.py:9", loader, ("/env/hooks.py", handler), (C10D, "broadcast"))
    lines = lost.split("\n")
    at = next(n for n, line in enumerate(lines) if handler in line)
    lines[at + 1] = "    self.notify(signum, frame)" if handler == "__call__" else lines[at + 1]
    if named:  # a function of the program, which its caller calls
        lines[at - 1] = f"    {handler}()"
    limit = raised(LIMIT.format("recv"), "step.py:9", (C10D, "all_reduce"))
    report = diagnosed({0: limit, 1: "\n".join(lines), 2: limit})
    assert ("dataloader" not in report.findings[0].category) is named


@pytest.mark.parametrize("level", ["ERROR 2026-11-21 10:00:09,1 ", "2026-11-21 10:00:09,1 ERROR "])
def test_an_exception_that_a_rank_logs_and_goes_on_from_is_not_what_ended_another(
    level: str,
) -> None:
    """It stands without a label below the header, and the launcher saw another rank fail first."""
    info = level.replace("ERROR", "INFO")
    steps = "".join(f"{info}rank {r}: step {s}\n" for s in (0, 5) for r in range(3))
    failed = raised("PermissionError: [Errno 13] Permission denied: '/ckpt/20.pt'", "save.py:7")
    logged = f"{level}rank 1: checkpoint 20 was not written\n{failed}"
    logged += f"{info.replace(':09', ':11')}rank 1: step 10\n"
    barrier = raised(CLOSED, "save.py:8", (C10D, "barrier"))
    reduce = raised(LIMIT.format("recv"), "run.py:12", (C10D, "all_reduce"))
    tail = woven((barrier, reduce, barrier), lambda rank: f"[rank{rank}]: ")
    agent = "E1121 10:00:19.1 97 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    agent += "(exitcode: 1) local_rank: 0 (pid: 1161) of binary: /env/bin/python\n"
    first = diagnosed({None: steps + logged + tail + agent}).findings[0]
    assert (first.category, first.culprit_ranks) == ("collective-mismatch", (1,))


def test_a_bar_without_an_end_is_drawn_once_more_as_well() -> None:
    gather = raised(LIMIT.format("send"), "run.py:11", (C10D, "all_gather"))
    reduce = raised(CLOSED, "run.py:13", (C10D, "all_reduce"))
    said = woven((reduce, gather, reduce), lambda rank: f"[rank{rank}]: ")
    bar = "rank 1: 31it [00:{}, 14.2it/s]\n"
    first = diagnosed({None: bar.format("01") + said + bar.format("13")}).findings[0]
    assert (first.category, first.culprit_ranks) == ("collective-mismatch", (1,))


JOINED = "DistStoreError: Timed out after 13 seconds waiting for clients. {}/4 clients joined."


@pytest.mark.parametrize(("joined", "culprits"), [(3, (3,)), (2, None)])
def test_who_did_not_come_to_the_store_is_who_waits_for_nothing_in_it(
    joined: int, culprits: tuple[int, ...] | None
) -> None:
    """Where the store counts fewer than are seen to wait, one of them came too late."""
    key = "DistStoreError: wait timeout after 12000ms, keys: /default_pg/0//cpu//0/0"
    port = "DistNetworkError: The client socket has timed out after 12000ms while trying to connect"
    ends = (JOINED.format(joined), key, key, f"{port} to (127.0.0.1, 31250).")
    texts = (raised(f"torch.distributed.{end}", "init.py:5") for end in ends)
    log = "".join(f"[r{r}] {line}\n" for r, text in enumerate(texts) for line in text.splitlines())
    first = next(
        finding
        for finding in diagnosed({None: log}).findings
        if finding.signature == "store-clients-missing"
    )
    assert first.culprit_ranks == culprits


@pytest.mark.parametrize(
    ("last", "verdict"),
    [
        ("Epoch 3/3, Loss: 0.31", "healthy"),
        ("Epoch 3/3 begins", None),
        (
            "2026-11-21 10:00:09 | INFO | fairseq_cli.train | done training in 3.4 seconds",
            "healthy",
        ),
        (
            "{'train_runtime': '0.66', 'epoch': '3'}\n100%|####| 40/40 [00:00<00:00, 60.15it/s]",
            "healthy",
        ),
        ("{'loss': '0.66', 'epoch': '2'}\n100%|####| 40/40 [00:00<00:00, 60.15it/s]", None),
    ],
)
def test_what_the_last_epoch_came_to_is_an_end(last: str, verdict: str | None) -> None:
    epochs = [f"Epoch {n}/3, Loss: 0.5{n}" for n in (1, 2)]
    log = "".join(f"Rank {r}, {line}\n" for line in [*epochs, last] for r in (1, 0, 2))
    assert (diagnosed({None: log}).verdict == "healthy") is (verdict is not None)


def test_who_runs_into_a_timer_of_its_own_has_not_failed() -> None:
    """Who ended first is only who set it first: all had stood there for as long."""
    timer = 'Timeout (0:00:10)!\nThread 0x00007f31 (most recent call first):\n  File "/w/heat.py", '
    stuck = "".join(
        f"[1,{r}]<stderr>:{line}\n"
        for r in range(3)
        for line in f"{timer}line 10 in exchange".split("\n")
    )
    box = "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    box += "the job to be terminated.\n\n  Process name: [[10057,1],0]\n  Exit code:    1\n"
    findings = diagnosed({None: stuck + box}).findings
    assert not [f for f in findings if f.culprit_ranks and f.confidence >= 0.5]


PRINT = "CollectiveFingerPrint(SequenceNumber=8, OpType=ALLREDUCE, TensorShape=[{}], Dtypes=Float)"


def test_of_calls_that_torch_compared_the_odd_one_is_named() -> None:
    """Each rank says its own shape and that of one other."""
    words = "RuntimeError: Detected mismatch between collectives on ranks. Rank {} is running "
    words += f"collective: {PRINT.format('{}')}, but Rank {{}} is running collective: "
    words += f"{PRINT.format('{}')}.Collectives differ in the following aspects: shapes"
    sides = ((0, 8, 1, 16), (1, 16, 0, 8), (2, 8, 1, 16))
    texts = [raised(words.format(*side), "run.py:5", (C10D, "all_reduce")) for side in sides]
    first = diagnosed({None: woven(texts, lambda rank: f"[rank{rank}]: ")}).findings[0]
    assert (first.category, first.culprit_ranks) == ("collective-mismatch", (1,))


def test_a_bar_of_one_rank_is_no_step_of_another() -> None:
    """Rank 0 draws its bar as others have given up; theirs is where they stood."""
    gather = raised(LIMIT.format("send"), "run.py:11", (C10D, "all_gather"))
    reduce = raised(LIMIT.format("recv"), "run.py:13", (C10D, "all_reduce"))
    others = woven((reduce, gather), lambda rank: f"[default{rank + 1}]:[rank{rank + 1}]: ")
    own = woven((reduce,), lambda _: "[default0]:[rank0]: ")
    bar = "[default0]:Epoch 0/1  ━━━━━━━━━━━━          11/15 0:00:10 • 0:00:01 23.49it/s \n"
    first = diagnosed({None: others + bar + own}).findings[0]
    assert (first.category, first.culprit_ranks) == ("collective-mismatch", (2,))


@pytest.mark.parametrize(("status", "culprits"), [("1", (2,)), ("137", None)])
def test_whom_a_shell_saw_killed_is_whose_status_says_so(
    status: str, culprits: tuple[int, ...] | None
) -> None:
    shell = "run.sh: line 14: 27179 Killed                  RANK=$r python train.py\n"
    rows = "".join(
        f"rank {r} ended with status {s}\n" for r, s in enumerate(("1", status, "137", "1"))
    )
    first = diagnosed({None: shell + rows}).findings[0]
    assert (first.signature, first.culprit_ranks) == ("shell-saw-killed", culprits)
