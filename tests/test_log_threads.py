"""Logs as people paste them: torn, spliced, without a word on whose they are."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

NODE = "node3:99:140 [1] "
NCCL_FAILED = (
    "[rank1]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, "
    "internal error - please report this issue to the NCCL developers, NCCL version 2.20.5\n"
    "[rank1]: ncclInternalError: Internal check failed.\n"
    "[rank1]: Last error:\n"
    "[rank1]: {}\n"
)
STRANGE = NODE + "graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found\n"
CRASH = (
    "Traceback (most recent call last):\n"
    '  File "/app/train.py", line 40, in <module>\n'
    "ZeroDivisionError: division by zero"
)
STEP = "Epoch: [0]  [ 260/9143]  lr: 0.000003  loss: 1.6425 (2.0424)  time: 0.5645\n"
GAVE_UP = (
    "[rank{0}]:[E1122 06:40:00.5 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={1}, OpType={2}, NumelIn=8, NumelOut=8, "
    "Timeout(ms)=600000) ran for 600080 milliseconds before timing out.\n"
    "[rank{0}]:[E1122 06:40:00.5 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank "
    "{0}] Exception (either an error or timeout) detected by watchdog at work: {1}, last enqueued "
    "NCCL work: {3}, last completed NCCL work: {4}.\n"
)
JOINED = (
    "INFO:root:Waiting in store based barrier to initialize process group for rank: {}, key: "
    "store_based_barrier_key:1 (world_size={}, worker_count={}, timeout=0:30:00)\n"
)
DEEPSPEED = (
    "[2023-07-10 04:26:05,876] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 94984\n"
    "[2023-07-10 04:26:35,999] [ERROR] [launch.py:324:sigkill_handler] ['/bin/python3', '-u', "
    "'train.py', '--local_rank=1', '--x'] exits with return code = {}\n"
)
ROW = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_02:{1}\n"
    "  host      : node1\n  rank      : {0} (local_rank: 0)\n  exitcode  : 1 (pid: 7{0})\n"
    "  error_file: <N/A>\n"
)
WRAPPED = "prterun noticed that process rank 7 with PID 0 on node n0304 exited on\nsignal {}\n"


def barrier(*waiting: int, world: int, joined: int) -> str:
    """Write what ranks say every ten seconds in the start-up barrier."""
    return "".join(JOINED.format(rank, world, joined) for rank in (*waiting, *waiting))


@pytest.mark.parametrize(
    ("code", "signature"),
    [
        (-7, "launcher-child-bus-error"),
        (-9, "launcher-child-sigkill"),
        (-11, "launcher-child-crash"),
    ],
)
def test_deepspeed_says_how_a_process_ended_and_not_whose_it_was(code: int, signature: str) -> None:
    """Its launcher prints the command that it started last, so nobody is blamed by it."""
    report = diagnosed({None: DEEPSPEED.format(code)})

    assert (report.findings[0].signature, report.findings[0].culprit_ranks) == (signature, None)


def test_the_last_error_of_nccl_is_reported() -> None:
    """Behind "Last error:" stands why, on the next line; no headline may say it is not known."""
    report = diagnosed({None: NCCL_FAILED.format("NET/Plug Unable to insert address. RC: 0")})

    assert (
        report.headline
        == "NCCL failed in its network layer: NET/Plug Unable to insert address. RC: 0."
    )


def test_a_last_error_that_is_known_speaks_for_itself() -> None:
    """Where a signature knows the words, it leads."""
    words = "NET/IB : Got completion from peer 10.1.0.4<43210> with status=12 opcode=0 len=0"
    report = diagnosed({None: NCCL_FAILED.format(words)})

    assert report.findings[0].signature == "nccl-ib-retry-exceeded"


def test_an_unknown_warning_is_not_passed_over() -> None:
    """A job that may have ended on it is not called healthy."""
    report = diagnosed({None: STEP + STRANGE})

    assert report.verdict != "healthy"
    assert "Attribute arch of node cpu not found" in report.headline


def test_an_unknown_warning_that_the_job_got_over_is_no_finding() -> None:
    """Steps that follow show that it did not matter."""
    assert diagnosed({None: STRANGE + 40 * STEP}).findings == ()
    assert diagnosed({None: STRANGE + 40 * STEP + "# done\n"}).verdict == "healthy"


def test_two_ranks_out_of_step_blame_nobody() -> None:
    """One stands in call 313, the other has finished it: their calls before did not match."""
    text = GAVE_UP.format(1, 313, "_ALLGATHER_BASE", 314, 312) + GAVE_UP.format(
        0, 315, "ALLREDUCE", 315, 314
    )
    (finding, *_) = diagnosed({None: text}).findings

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", None)
    assert "rank 1 in all_gather_into_tensor #313" in finding.title
    assert "rank 0 in all_reduce #315" in finding.title


def test_one_rank_behind_many_is_named() -> None:
    """Where all others have finished a call, the one that has not is looked at first."""
    text = "".join(GAVE_UP.format(r, 9, "ALLREDUCE", 9, 8) for r in (0, 1, 3))
    (finding, *_) = diagnosed({None: text + GAVE_UP.format(2, 7, "ALLREDUCE", 7, 6)}).findings

    assert (finding.category, finding.culprit_ranks) == ("missing-rank-in-collective", (2,))


def test_a_watchdog_that_gave_up_is_reported_in_the_words_of_the_job() -> None:
    """Which call, on which ranks, after how long: not only that something timed out."""
    text = GAVE_UP.format(1, 52, "ALLREDUCE", 52, 51) + GAVE_UP.format(2, 52, "ALLREDUCE", 52, 51)
    titles = [finding.title for finding in diagnosed({None: text}).findings]

    assert (
        "all_reduce #52 did not complete within 10 min on ranks 1-2; the NCCL watchdog gave up"
    ) in titles


def test_the_rank_that_did_not_join_the_start_up_barrier_is_named() -> None:
    """All who joined say that they wait, so the one that says nothing is missing."""
    text = barrier(0, 1, 2, 3, 5, 6, 7, world=8, joined=7)
    (finding, *_) = diagnosed({None: text}).findings

    assert (finding.category, finding.culprit_ranks) == ("init-missing-rank", (4,))


def test_a_barrier_of_which_not_all_tell_names_nobody() -> None:
    """The log of one rank does not say who else has come."""
    (finding, *_) = diagnosed({None: barrier(0, world=8, joined=7)}).findings

    assert (finding.category, finding.culprit_ranks) == ("init-missing-rank", None)


def test_bars_of_others_do_not_show_that_a_barrier_was_passed() -> None:
    """They prepare their data, and the rank in the barrier says in the same line that it waits."""
    bars = [
        f"{15000 + n}it [58:{n}, 4.5it/s]{barrier(0, world=7, joined=1)}" for n in range(10, 16)
    ]
    (finding, *_) = diagnosed({None: "".join(bars)}).findings

    assert (finding.category, finding.culprit_ranks) == ("init-missing-rank", (1, 2, 3, 4, 5, 6))
    past = "".join(f"step {n} loss 0.{n}\n" for n in range(10, 20))
    assert not diagnosed({None: barrier(0, world=7, joined=1) + past}).findings


def test_a_barrier_with_too_many_is_distinguished_from_one_with_too_few() -> None:
    """More have joined than there are ranks: they share ranks, and nobody is missing."""
    (finding, *_) = diagnosed({None: barrier(0, world=4, joined=8)}).findings

    assert finding.category == "init-duplicate-rank"


def test_of_two_launchers_the_one_whose_process_failed_earlier_is_believed() -> None:
    """Each host's table names its own first; half a minute tells whose failure was the first."""
    report = diagnosed({None: ROW.format(0, "13:52") + ROW.format(4, "13:01")})

    assert report.findings[0].culprit_ranks == (4,)


@pytest.mark.parametrize(("signal", "named"), [("6 (Aborted).", (7,)), ("15 (Terminated).", None)])
def test_a_sentence_of_mpirun_that_goes_on_in_the_next_line(
    signal: str, named: tuple[int, ...] | None
) -> None:
    """Open MPI 5 breaks it before the signal; who was merely asked to end is not blamed."""
    findings = diagnosed({None: WRAPPED.format(signal)}).findings

    assert next((f.culprit_ranks for f in findings if f.confidence >= 0.5), None) == named


def test_a_killed_server_that_killed_itself_is_no_lack_of_memory() -> None:
    """A serving engine that takes itself down has its shell print "Killed", too."""
    text = (
        "[2026-11-23 02:04:15 TP4] Watchdog timeout (self.watchdog_timeout=300)\n"
        "[2026-11-23 02:04:20] Received sigquit from a child proces. It usually means the child "
        "failed.\nKilled\n"
    )

    assert "rank-oom-killed" not in {f.category for f in diagnosed({None: text}).findings}


@pytest.mark.parametrize(
    ("line", "category"),
    [
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "rank-oom-killed"),
        ("=>> PBS: job killed: mem 134217728kb exceeded limit 100663296kb", "rank-oom-killed"),
        ("=>> PBS: job killed: walltime 259217 exceeded limit 259200", "slow-not-hung"),
        ("Exited with exit code 139.", "rank-died"),
        ("[w-n0-0] terminated with exit code (137). Reason [Error]. Message:", "rank-oom-killed"),
        ("train.sh: line 184: 23 Aborted                 (core dumped) python a.py", "rank-died"),
    ],
)
def test_the_last_words_of_batch_systems_are_understood(line: str, category: str) -> None:
    """A job that its scheduler ended is never called healthy, and nobody is blamed for it."""
    (finding, *_) = diagnosed({None: 40 * STEP + line + "\n"}).findings

    assert (finding.category, finding.culprit_ranks) == (category, None)


def test_a_time_limit_is_reported_where_slurm_says_that_it_cancels() -> None:
    """Of the lines in which Slurm ends a step, the one with the reason is the one to tell."""
    text = (
        "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT "
        "***\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n"
    )

    assert diagnosed({None: text}).findings[0].signature == "slurm-time-limit"


def test_an_xid_that_is_only_named_as_the_cause_of_another_counts() -> None:
    """A log that begins late holds only the clean-up, which names the fault before it."""
    line = (
        "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=48213, name=python3, Ch 00000001 caused by "
        "previous Xid 149\n"
    )

    assert diagnosed({None: line}).findings[0].category == "nvlink-error"


def test_an_exception_beside_a_lost_peer_is_that_of_a_rank() -> None:
    """Where another process lost its peer, the exception is not an ordinary one of one program."""
    lost = (
        "worker-0  | RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
        "closed by peer [172.18.0.3]:35612\n"
    )
    crash = "".join(f"worker-1  | {line}\n" for line in CRASH.splitlines())

    assert diagnosed({None: crash + lost}).findings[0].category == "rank-died"


def test_objects_that_arrive_garbled_tell_of_ranks_out_of_step() -> None:
    """The same exception means a damaged file only where a file was read."""
    error = "_pickle.UnpicklingError: invalid load key, '\\xe2'."
    received = (
        "Traceback (most recent call last):\n"
        '  File "train.py", line 7, in <module>\n'
        '  File "/env/torch/distributed/distributed_c10d.py", line 1451, in broadcast_object_list\n'
        f"{error}\n"
    )
    read = received.replace("/env/torch/distributed/distributed_c10d.py", "/env/torch/x.py")

    assert diagnosed({None: received}).findings[0].signature == "objects-out-of-step"
    assert diagnosed({None: read}).findings[0].signature == "checkpoint-unreadable"


STALLED = (
    "[1,0]<stderr>:[2021-02-10 17:39:53.4: W horovod/common/stall_inspector.cc:105] One or more "
    "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
    "waiting for remainder of ranks for more than 60 seconds.\n"
)


@pytest.mark.parametrize(
    ("printed", "signature", "ranks"),
    [
        ("Stalled ops:allreduce.a [missing ranks: 1]\n", "horovod-missing-ranks", (1,)),
        (
            "allreduce.a [missing ranks: 1]\nallreduce.b [missing ranks: 1, 3]\n",
            "horovod-missing-ranks",
            (1,),
        ),
        (
            "allreduce.a [missing ranks: 1, 2]\nallreduce.a [missing ranks: 2]\n",
            "horovod-missing-ranks",
            (2,),
        ),
        (
            "allreduce.a [ready ranks: 0, 3, 2, 5], \nallreduce.b [ready ranks: 0, 5, 2, 3], \n",
            "horovod-missing-ranks",
            (1, 4),
        ),
        ("allreduce.a [ready ranks: 0, 1, 2]\n", "horovod-stalled-ranks", ()),
        (
            "loss [ready ranks: 3], grad.0 [ready ranks: 2, 0, 1], grad.1 [ready ranks: 0, 1]\n",
            "horovod-ranks-apart",
            (),
        ),
        (
            "Missing ranks:\n0: [broadcast.a, broadcast.b]\n1: [broadcast.b]\n2: [broadcast.a]\n",
            "horovod-ranks-apart",
            (),
        ),
        (
            "  Missing ranks:\n    0: [Sgd_Allreduce/Horovod_grads_0, ...]\n",
            "horovod-missing-ranks",
            (0,),
        ),
        (
            "Stalled ranks:\n0: [allreduce.a, allreduce.b ...]\n1: [allreduce.c ...]\n",
            "horovod-missing-ranks",
            (0, 1),
        ),
        (
            "0: [allreduce.a ...]\n1: [allreduce.a ...]\n2: [broadcast.c]\n",
            "horovod-ranks-apart",
            (2,),
        ),
    ],
)
def test_horovod_waits_for_those_who_lack_every_tensor(
    printed: str, signature: str, ranks: tuple[int, ...]
) -> None:
    """Ranks that lack what others sent, and the other way round, are out of step."""
    report = diagnosed({None: STALLED + printed})
    assert report.findings[0].signature == signature
    assert (report.findings[0].culprit_ranks or ()) == ranks


PASTED = (
    '[rank1]:   File "/opt/lib/python3.11/site-packages/torch/optim/adam.py", line 9, in step\n'
    "[rank0]: hello\n"
    "[rank1]:     return step(self)\n"
    '[rank1]:   File "/app/train.py", line 40, in work\n'
    "[rank1]: {}\n"
)


def test_a_traceback_without_its_beginning_is_read() -> None:
    """What was pasted often starts in the middle of one."""
    finding = diagnosed({None: PASTED.format("ValueError: no such thing")}).findings[0]
    assert finding.signature == "uncaught-exception"
    assert finding.culprit_ranks == (1,)
    assert "at work (app/train.py:40)" in finding.title


def test_each_of_its_lines_may_have_a_loggers_header() -> None:
    """A logger that parts a message puts it before each of its lines."""
    header = "(Worker_TP1 pid=7) ERROR 07-01 00:38:05 [executor.py:239] "
    lines = [line.partition("]: ")[2] for line in PASTED.splitlines() if "hello" not in line]
    text = "".join(f"{header}{line}\n" for line in lines).format("ValueError: no such thing")

    finding = diagnosed({None: text}).findings[0]
    assert (finding.signature, finding.culprit_ranks) == ("uncaught-exception", (1,))


@pytest.mark.parametrize(
    "end", ["I was here.", "train.log.old", "Traceback (most recent call last):"]
)
def test_frames_without_an_exception_are_none(end: str) -> None:
    """Stacks that a program prints of itself look the same."""
    report = diagnosed({None: PASTED.format(end)})
    assert "uncaught-exception" not in {finding.signature for finding in report.findings}


def test_a_rank_whose_hccl_waits_in_vain_is_not_to_blame() -> None:
    """The exception is raised in a collective because of somebody else."""
    text = (
        '[rank1]:   File "/x/torch/distributed/distributed_c10d.py", line 2501, in all_reduce\n'
        "[rank1]: RuntimeError: InnerRunOpApi:torch_npu/csrc/framework/OpParamMaker.cpp:281 OPS "
        "function error: HcclAllreduce, error code is 6\n"
        "[rank1]: EI0006: [PID: 12] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: "
        "Remote Rank did not send the data in time.\n"
    )
    report = diagnosed({None: text})
    assert report.findings[0].signature == "hccl-socket-timeout"
    assert not report.findings[0].culprit_ranks


def test_a_rank_that_horovod_left_behind_is_not_to_blame() -> None:
    """Its exception is the word of another rank's end, which mpirun names."""
    text = (
        '[1,1]<stderr>:  File "/opt/lib/horovod/torch/mpi_ops.py", line 436, in synchronize\n'
        "[1,1]<stderr>:RuntimeError: Horovod has been shut down. This was caused by an exception "
        "on one of the ranks or an attempt to allreduce\n"
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
        "the job to be terminated. The first process to do so was:\n\n"
        "  Process name: [[50371,1],0]\n  Exit code:    1\n"
    )
    report = diagnosed({None: text})
    assert report.findings[0].category == "rank-died"
    assert report.findings[0].culprit_ranks == (0,)


TIMED_OUT = (
    "[rank{0}]:[E1122 02:00:00.123456789 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0(default_pg) "
    "Rank {0}] Timeout at NCCL work: 300, last enqueued NCCL work: 300, last completed NCCL work: "
    "299.\n"
)


@pytest.mark.parametrize(
    ("speak", "size", "named"),
    [
        ((0, 1, 3), "", (2,)),  # a hole in those that speak
        ((0, 1, 2), "", None),  # there may be a rank 3, or not
        ((0, 1, 4), "", None),  # half of them are not there: a log in parts
        ((0, 1, 2), "[rank0]: world_size=4\n", (3,)),
    ],
)
def test_one_hole_in_the_ranks_that_timed_out_is_pointed_at(
    speak: tuple[int, ...], size: str, named: tuple[int, ...] | None
) -> None:
    """Of one log for all ranks; where the number of ranks stands nowhere, it is a possibility."""
    report = diagnosed({None: size + "".join(TIMED_OUT.format(rank) for rank in speak)})
    culprits = {
        rank: finding.confidence
        for finding in report.findings
        for rank in finding.culprit_ranks or ()
    }
    assert (tuple(culprits) or None) == named
    assert all((confidence >= 0.5) == bool(size) for confidence in culprits.values())
