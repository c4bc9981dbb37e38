"""Whether a job whose logs tell of no trouble is healthy: what came to its end is, or idles."""

from __future__ import annotations

import pytest
from log_docs import diagnosed, diagnosed_files

STEPS = "".join(f"step {n} loss {3 / n:.2f}\n" for n in range(90, 100))
OPENING = "opening shard 12\n"
TEARDOWN = "step 100/100 loss 0.03\ncalling destroy_process_group\n"
DOWN = TEARDOWN + "process group destroyed\n"
BENCH = """\
#       size         count    type   redop    time   algbw   busbw
     1048576        262144   float     sum   431.2    2.43    4.56
"""
VLLM = (
    "INFO 03-04 10:11:1{} metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation "
    "throughput: 0.0 tokens/s, Running: {} reqs, Swapped: 0 reqs, Pending: 0 reqs\n"
)
SGLANG = "[2025-03-04 10:11:12 TP0] Decode batch. #running-req: {}, #queue-req: 0\n"
UP = "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)\n"
HEALTH = 'INFO:     10.0.0.7:41422 - "GET /health HTTP/1.1" 200 OK\n'
WARNING = (
    "n1:91:88 [0] proxy.cc:1521 NCCL WARN [Proxy Service 0] Failed to execute operation Close\n"
)


@pytest.mark.parametrize(
    "logs",
    [
        {None: STEPS + "Training completed in 0.4 h\n"},
        {None: STEPS + "step 100 of 100 loss 0.03\nsaved final checkpoint to /ckpt/last\n"},
        {None: BENCH + "# Avg bus bandwidth    : 4.56\n" + WARNING},
        dict.fromkeys(range(4), DOWN),
        {0: STEPS + "training done\n", 1: STEPS, 2: STEPS},  # one rank speaks for all
        {0: STEPS + "training done\n", 1: "using 4 workers\n"},
        {0: "epoch 3/3: 100%|##########| 50/50 [00:10<00:00, 5.0it/s]\n"},
        {None: "Process 4711 exits successfully.\nProcess 4712 exits successfully.\n"},
        {None: UP + HEALTH},
        {None: UP + VLLM.format(1, 0) + VLLM.format(2, 0)},
        {None: "The server is fired up and ready to roll!\n" + SGLANG.format(0)},
        {None: STEPS + "2026-03-01 11:52:03 [INFO] Training time 0:08:42\n"},
        {None: STEPS + "(TrainController pid=7) [State Transition] RUNNING -> FINISHED.\n"},
        {None: STEPS + "Job 'raysubmit_k7' succeeded\n"},
    ],
)
def test_a_job_that_came_to_its_end_or_idles_is_healthy(logs: dict[int | None, str]) -> None:
    """A result, a farewell, the last of so many steps, a last checkpoint, an empty queue."""
    assert diagnosed(logs).verdict == "healthy"


@pytest.mark.parametrize(
    "logs",
    [
        {None: STEPS},
        dict.fromkeys(range(4), STEPS),
        {0: STEPS + "step 100 loss 0.03\n", 1: STEPS + OPENING},
        {0: DOWN, 1: TEARDOWN, 2: DOWN},
        {0: DOWN, 1: TEARDOWN},
        {0: STEPS + "training done\n", 1: STEPS.replace("step 99 ", "saw 99 ")},
        {None: STEPS + "saving final checkpoint to /ckpt/last\n"},
        {None: "epoch 3/3 loss 0.2\n"},  # the last epoch has begun
        {None: "epoch 2 begins\n" + STEPS + "step 100/100 loss 0.1\n"},  # its last step, and then?
        {None: "epoch 2: 50%|#####     | 25/50 [00:10<00:10, 2.5it/s]\n"},
        {None: STEPS + "saved checkpoint at step 99\n"},
        {None: BENCH.partition("    1048576")[0]},
        {None: UP + VLLM.format(1, 3) + VLLM.format(2, 3)},
        {None: SGLANG.format(7)},
        {None: STEPS + "step 100 of 100, 16 documents\n"},  # the last step has begun
        dict.fromkeys(range(4), STEPS + "all steps done, total 8129\n"),  # and the job?
        {None: STEPS + "training time left 0:08:42\n"},
        {None: STEPS + "training time per step: 0.34\n"},
        {None: STEPS + "(TrainController pid=7) [State Transition] SCHEDULING -> RUNNING.\n"},
        {None: STEPS + "Job 'raysubmit_k7' submitted successfully, step 3 next\n"},
    ],
)
def test_a_log_that_merely_ends_is_not_healthy(logs: dict[int | None, str]) -> None:
    """In the middle of steps, in a teardown that one rank does not finish, with open requests."""
    assert diagnosed(logs).verdict != "healthy"


def test_the_place_where_a_log_ends_is_reported_with_what_is_missing() -> None:
    """Nobody is blamed for it."""
    report = diagnosed({None: STEPS})

    assert (report.verdict, report.findings) == ("inconclusive", ())
    assert "ends at 'step 99 loss 0.03', in the middle of its steps" in report.headline
    assert "whyhang PID" in report.gaps[-1]
    assert "--looks" not in report.gaps[-1]


def test_what_nccl_launched_on_all_ranks_is_not_completed() -> None:
    """Its lines are printed as it launches a collective: a hang in the last looks the same."""
    begun = "".join(
        f"n1:10{rank}:10{rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d0{rank} rank {rank} "
        f"nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x8e1f - Init COMPLETE\n"
        for rank in range(4)
    )
    launched = "".join(
        f"n1:10{rank}:10{rank} [{rank}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f "
        f"recvbuff 0x7f count 100 datatype 7 op 0 root 0 comm 0x55d0{rank} [nranks=4] stream 0x5\n"
        for number in range(40)
        for rank in range(4)
    )

    assert diagnosed({None: begun + launched}).verdict == "inconclusive"


@pytest.mark.parametrize(("rank", "verdict"), [(0, "healthy"), (3, "healthy"), (1, "inconclusive")])
def test_the_first_or_the_last_rank_speaks_for_all(rank: int, verdict: str) -> None:
    """Another one that ends well while the others stand in their steps has ended alone."""
    steps = "".join(f"[rank{r}]: step {s} loss 0.{s}\n" for s in range(6) for r in range(4))
    assert diagnosed({None: f"{steps}[rank{rank}]: Exited successfully\n"}).verdict == verdict


def test_the_state_of_a_rank_is_what_its_log_tells() -> None:
    """It runs while it prints, has exited at its end, waits until its limit; else nobody knows."""
    gave_up = "[unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation to complete\n"
    died = "Traceback (most recent call last):\n"
    report = diagnosed({0: STEPS, 1: STEPS + "training done\n", 2: gave_up, 3: "step 1\n" + died})
    states = ["running", "exited", "waiting", "unreachable"]
    assert [row.state for row in report.ranks] == states


AGENTS = """\
[GPU0] Epoch 48 | Steps: 8
[GPU1] Epoch 48 | Steps: 8
[GPU0] Epoch 49 | Steps: 8[GPU1] Epoch 49 | Steps: 8
INFO:torch.distributed.elastic.agent.server.api:[default] worker group successfully finished. \
Waiting 300 seconds for other agents to finish.
"""


def test_torchruns_agents_say_that_all_have_ended() -> None:
    """An agent that still waits for others knows of its own ranks only."""
    done = "INFO:torch.distributed.elastic.agent.server.api:Done waiting for other agents."

    assert diagnosed({None: f"{AGENTS}{done} Elapsed: 0.001 seconds\n"}).verdict == "healthy"
    assert diagnosed({None: AGENTS}).verdict != "healthy"


def test_torchruns_agent_waits_for_others_also_when_its_own_ranks_have_failed() -> None:
    """It says first how they ended."""
    agent = "INFO:torch.distributed.elastic.agent.server.api:"
    log = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 1 "
        "(pid: 5528) of binary: /usr/bin/python3\n"
        f"{agent}Local worker group finished (FAILED). Waiting 300 seconds for other agents\n"
        f"{agent}Done waiting for other agents. Elapsed: 0.001 seconds\n"
    )
    report = diagnosed_files({"train.log": log})

    assert (report.verdict, report.findings[0].culprit_ranks) == ("failed", (1,))


def test_a_crash_behind_the_loss_of_a_peer_is_no_cause() -> None:
    """The rank leaves for a peer that is gone, and its libraries do not like that."""
    lost = "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote "
    crash = "[rank1]: Caught signal 11 (Segmentation fault: address not mapped to object)\n"
    behind = diagnosed({None: f"{lost}process exiting prematurely.\n{crash}"})
    alone = diagnosed({None: f"[rank0]: step 1\n{crash}"})

    assert not behind.findings[0].culprit_ranks, behind.headline
    assert alone.findings[0].culprit_ranks == (1,)


@pytest.mark.parametrize(("ends", "healthy"), [(3, True), (2, False)])
def test_each_rank_says_without_its_label_that_it_has_finished(ends: int, healthy: bool) -> None:
    """As many lines as ranks, below the last steps of all."""
    steps = "".join(f"rank {rank} step {n}\n" for n in range(100, 160, 10) for rank in range(3))
    report = diagnosed({None: steps + ends * "training finished\n"})

    assert (report.verdict == "healthy") is healthy


WATCHED = """\
$ kubectl get pods -w
NAME             READY   STATUS      RESTARTS   AGE
run-master-0     1/1     Running     0          9s
run-worker-0     1/1     Running     0          9s
run-master-0     0/1     Completed   0          95s
run-worker-0     0/1     {0}       0          95s
"""
OF_OPERATOR = """\
$ kubectl get pytorchjob -w
NAME   STATE     AGE
run              0s
run    Running   4s
run    {0}   95s
"""


@pytest.mark.parametrize(
    ("worker", "job", "verdict"),
    [
        ("Completed", "", "healthy"),
        ("Terminating", "Succeeded", "healthy"),
        ("Terminating", "", "inconclusive"),
        ("Running", "Running", "inconclusive"),
    ],
)
def test_kubernetes_shows_that_a_job_has_ended(worker: str, job: str, verdict: str) -> None:
    """What becomes of the workers' pods behind it is the operator's clean-up."""
    files = {"pods.txt": WATCHED.format(worker), "job.txt": OF_OPERATOR.format(job) if job else ""}

    assert diagnosed_files({n: text for n, text in files.items() if text}).verdict == verdict


def test_what_somebody_writes_of_a_freeze_is_no_end() -> None:
    """The words of an end in a sentence are none of a program."""
    text = "My simulation freezes at the end, since only rank 0 calls the reduce.\n"

    assert (
        diagnosed_files({"notes.txt": text + "The end of run is complete.\n"}).verdict != "healthy"
    )


def test_a_communicator_of_one_rank_waits_for_nobody() -> None:
    line = "p:53:7 [0] NCCL INFO comm 0x4d rank 0 nranks 1 cudaDev 0 commId 0x7 - Init START\n"
    report = diagnosed_files({"rank0.log": f"{line}loading\n"})

    assert report.verdict == "inconclusive"


REFUSED = (
    "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n0]:4346 "
    "(errno: 113 - No route to host).\n"
)
MET = "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers.\n"


@pytest.mark.parametrize(
    ("log", "verdict"),
    [(MET + REFUSED, "hung"), (REFUSED + MET, "inconclusive")],
)
def test_what_is_tried_again_is_over_by_what_stands_below_it(log: str, verdict: str) -> None:
    """Torchrun's agents meet first, and the ranks that they start at a store of their own."""
    assert diagnosed_files({"node1.log": log}).verdict == verdict


@pytest.mark.parametrize(
    ("ranks", "more", "verdict"),
    [
        ((1, 0, 2), "", "healthy"),
        ((0, 2), "", "hung"),
        ((0, 1, 2), "it hangs in MPI_Finalize\n", "inconclusive"),
    ],
)
def test_a_program_that_greets_is_through_when_all_have(
    ranks: tuple[int, ...], more: str, verdict: str
) -> None:
    log = "".join(f"Hello world from n1, rank {rank} out of 3 processors\n" for rank in ranks)

    assert diagnosed_files({"out.log": log + more}).verdict == verdict


@pytest.mark.parametrize(("ranks", "named"), [(2, True), (1, False)])
def test_processes_that_are_each_alone(ranks: int, named: bool) -> None:
    """Mpirun of another MPI than the program's makes a world of one rank of each process."""
    log = f"$ mpirun -np {ranks} ./hello\n" + "Hello from n1, rank 0 out of 1 processors\n" * ranks
    found = [f.signature for f in diagnosed_files({"out.log": log}).findings]

    assert ("each-is-alone" in found) is named


def test_pods_that_are_listed_with_their_kind() -> None:
    """``kubectl get all`` writes "pod/" in front of a name."""
    pods = WATCHED.replace("run-", "pod/run-").format("Completed")

    assert diagnosed_files({"all.txt": pods}).verdict == "healthy"


def test_completed_or_interrupted_is_no_end() -> None:
    assert diagnosed({None: "loading\nTraining completed or interrupted\n"}).verdict != "healthy"


SWEEP = "# OSU MPI All-to-All Latency Test\n# Size       Avg Latency(us)        Validation\n"


@pytest.mark.parametrize(
    ("text", "healthy"),
    [
        (SWEEP + "524288  236.43  Pass\n1048576  519.85  Pass\n", True),
        (SWEEP + "65536  36.53  Pass\n131072  62.96  Pass\n", False),
        ('{"name": "torchelastic.worker.status.SUCCEEDED", "state": "SUCCEEDED"}\n', True),
        ('{"name": "torchelastic.worker.status.FAILED", "state": "FAILED"}\n', False),
        ("hello from 1\n./a.out  0.04s user 0.10s system 0% cpu 23.600 total\n", True),
        ("".join(f"Hello from {rank} of 4\n" for rank in range(4)), True),
        ("".join(f"Hello from {rank} of 4\n" for rank in range(3)), False),
        ("Running switch tests on NIC 0\nall2all 1 131072 8718\nlinktest has PASSED\n", True),
        ("$ mpirun -np 2 ./stencil\nInitialising block 1...\nSUCCESS!\n", True),
        ("    example [ mpirun -np 4 ex8p ]: OK  (0.48s 37604kB)\n", True),
        ("    example [ mpirun -np 4 ex8p ]: FAIL  (0.48s 37604kB)\n", False),
        ("$ mpirun -np 2 ./stencil\nInitialising block 1...\nElapsed time: 3.1 seconds\n", True),
        ("$ mpirun -np 2 ./stencil\nsetup time: 3.1 seconds\n", False),
        ("world size: 2\n" + "Elapsed time: 3.1 seconds\n" * 3, False),
        ("hello from 1\nreal\t0m23.600s\nuser\t0m0.040s\nsys\t0m0.100s\n", True),
    ],
    ids=[
        *("sweep", "cut sweep", "agent", "failed", "time of zsh"),
        *("greetings", "one is silent", "passed"),
        *("success", "ok", "fail", "elapsed", "time of a part", "each time", "time of bash"),
    ],
)
def test_results_that_are_the_last_of_a_program(text: str, *, healthy: bool) -> None:
    """The last size of a benchmark, what an agent reports of a worker, the time of a command."""
    assert (diagnosed({None: text}).verdict == "healthy") is healthy


def test_the_options_of_a_command_tell_of_no_trouble() -> None:
    """They name what may fail, and how errors are to be handled."""
    command = (
        "$mpirun -np 2 -x MXM_HANDLE_ERRORS=debug -mca btl_openib_if_include mlx5_0:1 ./ring\n"
    )
    report = diagnosed({None: "user@n1 /tmp\n" + command + "Process 0 sending 10 to 1\n"})
    assert not [finding for finding in report.findings if finding.category == "nccl-ib-error"]


AT_EXIT = (
    "[rank0]:[W604 09:06:22.151448063 ProcessGroupNCCL.cpp:1496] Warning: WARNING: "
    "destroy_process_group() was not called before program exit, which can leak resources. "
    "(function operator())\n"
)


@pytest.mark.parametrize(
    ("above", "verdict"),
    [
        ("[rank0]: sent\n[rank1]: received\n", "healthy"),
        ("step 3 loss 2.0\nTraceback (most recent call last):\nValueError: bad row\n", "failed"),
    ],
)
def test_a_process_that_c10d_warns_at_its_exit_has_ended(above: str, verdict: str) -> None:
    """The warning tells that the program is through, and nothing of how it came there."""
    assert diagnosed_files({"out.txt": above + AT_EXIT}).verdict == verdict


@pytest.mark.parametrize(("lines", "at_start"), [(3, True), (40, False)])
def test_a_program_that_printed_much_is_not_said_to_be_at_its_start(
    lines: int, *, at_start: bool
) -> None:
    """Nothing tells a result from what is printed at the start, but that there is much of it."""
    text = "world size: 4\n" + "".join(f"node {n} has value {n * n}.5\n" for n in range(lines))
    report = diagnosed({None: text})
    assert ("end at the start" in report.headline) is at_start
