"""What logs of whole jobs tell by comparison: work while others wait, pids, pods.

Each mechanism has evidence of an invented program, and a near miss that must blame nobody.
"""

from __future__ import annotations

import pytest
from log_docs import diagnosed, diagnosed_files

from whyhang.analyzer.report import Report


def culprits(report: Report) -> list[int]:
    """Return whom the first finding names."""
    return list(report.findings[0].culprit_ranks or ()) if report.findings else []


def gave_up(rank: int) -> str:
    """Write that a rank waited ten minutes in vain for the call that it made at 12:00."""
    return (
        f"[rank{rank}]:[E0609 12:10:00.{rank}21000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, "
        "NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600031 milliseconds before timing "
        "out.\n"
    )


LOST = (
    "[rank3]:[E0609 12:10:00.721000000 ProcessGroupNCCL.cpp:2068] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 3] Process group watchdog thread terminated with exception: NCCL error: remote process "
    "exited or there was a network error, NCCL version 2.23.4\n"
    "Last error:\nsocketPollConnect: refused\n"
)


def trained(rank: int, *more: str) -> str:
    """Write the steps of a rank up to 12:00, and what it prints further."""
    lines = [f"2025-06-09 11:59:{n:02d} rank {rank} step {n} done" for n in range(30, 58, 4)]
    return "\n".join([*lines, *more]) + "\n"


def test_who_works_while_the_others_wait_is_late() -> None:
    """Own words in the middle of the others' wait outweigh that the rank lost a peer at its end."""
    logs = {rank: trained(rank) + gave_up(rank) for rank in (0, 1, 2)}
    collected = "2025-06-09 12:06:30 rank 3 compaction of the cache done"

    report = diagnosed({**logs, 3: trained(3, collected) + LOST})

    assert (culprits(report), "compaction" in report.headline) == ([3], True)


def test_who_is_silent_too_and_loses_a_peer_may_have_waited() -> None:
    """A rank that says nothing in between may have come to the call just after the others."""
    logs = {rank: trained(rank) + gave_up(rank) for rank in (0, 1, 2)}

    report = diagnosed({**logs, 3: trained(3) + LOST})

    assert culprits(report) == []


def blocked(pid: int) -> str:
    """Write what the kernel says of a lost file system and of a process stuck in it."""
    return (
        "[Thu Jan  9 18:01:20 2025] Lustre: fs-OST0011-osc-ff: Connection to fs-OST0011 (at "
        "10.5.0.7@o2ib) was lost; in progress operations using this service will wait for recovery "
        f"to complete\n[Thu Jan  9 18:05:21 2025] INFO: task python3:{pid} blocked for more than "
        "120 seconds.\n"
    )


@pytest.mark.parametrize(("pid", "named"), [(812, [2]), (4711, [])])
def test_the_kernel_names_a_rank_by_the_pid_that_it_introduced(pid: int, named: list[int]) -> None:
    """The pid that a rank says it has joins the kernel's log, beside ranks of groups as well."""
    own = "".join(
        f"{rank}: [I setup:40] Rank {rank} has data parallel rank: {rank // 2}, pid {810 + rank}\n"
        for rank in range(4)
    )

    report = diagnosed_files({"job.out": own, "dmesg.txt": blocked(pid)})

    assert report.findings[0].category == "storage-io-blocked"
    assert culprits(report) == named


def pods(names: tuple[str, ...], extra: str = "") -> str:
    """Write the log of several pods, the last of which fails in its loader."""
    lines = [f"{name} INFO it={n} loss=0.{n}{extra}" for n in range(6) for name in names]
    error = "RuntimeError: DataLoader worker (pid 44) is killed by signal: Bus error."
    return "\n".join([*lines, f"{names[-1]} ERROR {error}"]) + "\n"


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (pods(("tr-0", "tr-1", "tr-2", "tr-3")), [3]),
        (pods(("tr-0", "tr-1", "tr-3")), []),  # one is missing: they may count something else
        (pods(("tr-0", "ps-1", "tr-2")), []),  # of two kinds
        (pods(("tr-0", "tr-1", "tr-2"), " rank=5"), []),  # pods in which ranks speak are nodes
        (pods(("node-0", "node-1", "node-2")), []),
    ],
)
def test_pods_that_all_print_the_same_are_ranks(log: str, named: list[int]) -> None:
    """Names that count from 0 on without a hole are those of ranks where all speak alike."""
    assert culprits(diagnosed_files({"pods.log": log})) == named


RAY = (
    "(TorchTrainer pid=50, ip=10.0.0.1) - (node_id=4f0, ip=10.0.0.{0}, pid=6{0}2) world_rank={0}, "
    "local_rank=0, node_rank={0}\n"
)
KILLED = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.1, ID: 4f0) where the task (actor ID: 8b, name=RayTrainWorker."
    "__init__, pid={}, memory used=15.22GB) was running was 23.71GB / 25.51GB (0.952), which "
    "exceeds the memory usage threshold of 0.95. Ray killed this worker (ID: 77) because it was "
    "the most recently scheduled task.\n"
)


@pytest.mark.parametrize(("pid", "named"), [(612, [1]), (999, [])])
def test_ray_names_the_worker_that_it_killed(pid: int, named: list[int]) -> None:
    """The pid in Ray's message is that of a rank in its table of workers, or of nobody known."""
    report = diagnosed_files({"driver.log": "".join(map(RAY.format, (0, 1))) + KILLED.format(pid)})

    assert report.findings[0].category == "rank-oom-killed"
    assert culprits(report) == named


def notified(rank: int) -> str:
    """Write that a rank on an NPU waited in vain; the remote rank is the next in the ring."""
    return (
        f"EI0002: The wait execution of the Notify register times out. Reason: The Notify register "
        f"has not received the Notify record from remote rank [{(rank + 1) % 4}].\n"
    )


def test_npu_that_alone_gives_no_timeout_is_waited_for() -> None:
    """Of ranks on NPUs, too, the one whose own log has no word of the wait did not come."""
    logs = {rank: trained(rank) + notified(rank) for rank in (0, 2, 3)}

    report = diagnosed({**logs, 1: trained(1, "reading shard 41")})

    assert culprits(report) == [1]


def test_npus_that_all_wait_blame_nobody() -> None:
    """The remote ranks in HCCL's lines are neighbours in a ring, not culprits."""
    report = diagnosed({rank: trained(rank) + notified(rank) for rank in range(4)})

    assert culprits(report) == []


def test_ranks_in_a_communicator_over_hosts_place_pids() -> None:
    """NCCL's line of local ranks tells whose pid fails, where no line of the set-up is kept."""
    members = "".join(
        f"n{rank // 2}:70{rank}:80{rank} [{rank % 2}] NCCL INFO comm 0x5{rank} rank {rank} "
        f"nRanks 4 nNodes 2 localRanks 2 localRank {rank % 2} MNNVL 0\n"
        for rank in range(4)
    )
    fails = (
        "n1:702:930 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error\n"
    )

    assert culprits(diagnosed_files({"job.log": members + fails})) == [2]
    assert culprits(diagnosed_files({"job.log": fails.replace("702", "799") + members})) == []


def smi(idle: int, gpus: int = 8) -> str:
    """Write nvidia-smi's table of GPUs that spin at little power, but for one that is idle."""
    rows = "".join(
        f"|   {n}  NVIDIA A100-SXM4-80GB    On  | 00000000:{n + 7:02X}:00.0 Off |          0 |\n"
        f"| N/A   34C    P0     {62 if n == idle else 101}W / 400W |  61002MiB / 81920MiB |    "
        f"{0 if n == idle else 100}%      Default |\n"
        "|                                  |                     |             Disabled |\n"
        for n in range(gpus)
    )
    head = "| NVIDIA-SMI 535.161.08   Driver Version: 535.161.08   CUDA Version: 12.2  |\n"
    pids = "".join(
        f"|    {n}   N/A  N/A   {7700 + n}   C   /usr/bin/python3   60990MiB |\n"
        for n in range(gpus)
    )
    return head + rows + "+----+\n" + pids


@pytest.mark.parametrize(
    ("ranks", "host", "named"),
    [
        (8, "on host n3", [4]),
        (16, "on host n3", []),  # of which host the GPUs are is not known
        (4, "on host n3", []),  # other programs have GPUs, too
    ],
)
def test_an_idle_gpu_of_eight_is_that_of_the_rank_with_its_number(
    ranks: int, host: str, named: list[int]
) -> None:
    """Where ranks of one host are as many as its GPUs, the number of the idle one is the rank."""
    log = "".join(f"[rank{rank}] ready {host}\n" for rank in range(ranks))
    second = smi(4).split("+----+")[0]  # a look later, without processes

    report = diagnosed_files({"out.log": log, "smi.txt": smi(4), "smi-2.txt": second})

    assert culprits(report) == named


BUSY = "(EngineCore_0 pid=9) INFO 09-03 09:01:31 [shm_broadcast.py:466] No available shared memory "
BUSY += "broadcast block found in 60 seconds.\n"


def test_a_busy_worker_of_a_server_is_no_certain_hang() -> None:
    """One line of a ring of messages that is full is a possibility, and nothing once it serves."""
    served = '(APIServer pid=8) INFO: 10.0.0.4:51 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 40

    alone = diagnosed_files({"server.log": BUSY})
    goes_on = diagnosed_files({"server.log": BUSY + served})

    assert alone.findings[0].confidence < 0.5
    assert goes_on.findings == ()


def member(rank: int, batches: int) -> str:
    """Write what Lightning and a program print at the start of a rank, and steps of it."""
    return (
        f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/4\n"
        f"GLOBAL_RANK {rank}: train dataloader has {batches} batches\n"
        + "".join(f"GLOBAL_RANK {rank}: batch {n}\n" for n in range(0, 400, 40))
    )


@pytest.mark.parametrize(("batches", "named"), [((413, 412, 413, 413), [1]), ((413,) * 4, [])])
def test_ranks_at_work_have_all_been_there(batches: tuple[int, ...], named: list[int]) -> None:
    """Steps below the start refute that ranks were missing; the odd number of batches is told."""
    log = "".join(member(rank, count) for rank, count in enumerate(batches))
    waits = "".join(map(gave_up, (0, 2, 3)))

    report = diagnosed_files({"lightning.log": log + waits * bool(named)})

    assert culprits(report) == named
    assert "init-missing-rank" not in {finding.category for finding in report.findings}


def test_a_communicator_that_ends_is_no_work_of_the_job() -> None:
    """What NCCL destroys below the start does not refute that ranks were missing."""
    began = "".join(
        f"Initializing distributed: GLOBAL_RANK: {n}, MEMBER: {n + 1}/4\n" for n in (0, 1)
    )
    ended = (
        "n1:70:80 [0] NCCL INFO comm 0x58 rank 0 nranks 1 cudaDev 0 busId 1000 - Destroy COMPLETE\n"
    )

    report = diagnosed_files({"job.log": began + ended + "INFO nothing further\n" * 90})

    assert [finding.category for finding in report.findings] == ["init-missing-rank"]


KILL = "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0.\n"
KILL += "srun: error: n1: task 3: Out Of Memory\nsrun: error: n1: tasks 0-2: Terminated\n"


def ran(first: int, last: int) -> str:
    """Write steps as Slurm labels them."""
    return "".join(f"0: step {n}/500 loss {3 - n / 400:.3f}\n" for n in range(first, last, 10))


@pytest.mark.parametrize(
    ("behind", "named"),
    [
        (ran(110, 501) + "0: Training complete. Total time 1:04:11\n", []),
        (ran(110, 300), [3]),  # it may have ended by the same
        ("0: Training complete. Total time 1:04:11\n", [3]),  # without a step: what was buffered
    ],
)
def test_who_was_killed_before_the_job_came_to_its_end_is_history(
    behind: str, named: list[int]
) -> None:
    """A job that was started anew in the same log, and ended as planned, has no culprit."""
    assert culprits(diagnosed_files({"slurm.out": ran(0, 120) + KILL + behind})) == named


def test_a_group_that_was_not_created_by_all_names_who_did_not() -> None:
    """The barrier of a later group tells who came; the last words of its error are of no store."""
    error = (
        "torch.distributed.DistStoreError: Timed out initializing process group in store based "
        "barrier on rank {0}, for key: store_based_barrier_key:2 (world_size=4, "
        "num_workers_joined=3, timeout=0:30:00 error=Timed out after 1800 seconds waiting for "
        "workers. 3/4 workers joined.)"
    )
    log = "".join(f"[rank{rank}]: {error.format(rank)}\n" for rank in (0, 1, 2))

    assert culprits(diagnosed_files({"t.log": "rank 3: no shards, skips it\n" + log})) == [3]


def test_a_log_that_is_torn_within_its_clock_says_nothing_of_what_followed() -> None:
    """What is left of a last line names nobody, and the lines behind it are not known."""
    logs = {
        rank: f"12:00:0{rank} setup of rank {rank} done\n"
        + "".join(f"12:00:1{n} step {n} of rank {rank}\n" for n in range(5 if rank != 2 else 1))
        for rank in range(4)
    }

    assert culprits(diagnosed({**logs, 2: logs[2] + "12:00"})) == []


def test_ranks_may_have_given_up_behind_the_torn_end_of_a_log() -> None:
    """A log that breaks off among the words of those who gave up does not tell who did not."""
    log = "".join(f"[rank{rank}]: step 1 done\n" for rank in range(4))
    for rank in (0, 2, 3):
        log += gave_up(rank) + f"[rank{rank}]: frame #0: c10::Error\n" * 9

    assert culprits(diagnosed({None: log})) == [1]
    assert culprits(diagnosed({None: log + "[ra"})) == []


@pytest.mark.parametrize(
    ("event", "named"),
    [
        ("pod/tr-2   The node was low on resource: ephemeral-storage.", [2]),
        ("pod/loader-2   The node was low on resource: memory.", []),  # of another program
        ("The node was low on resource: memory.", []),
    ],
)
def test_a_pod_that_was_evicted_is_the_rank_that_its_lines_tell(
    event: str, named: list[int]
) -> None:
    """An event names a pod; which rank that is, the labels of the ranks' own lines say."""
    names = ("tr-0", "tr-1", "tr-2", "tr-3")
    log = "".join(f"{name} INFO it={n} loss=0.{n}\n" for n in range(6) for name in names)

    report = diagnosed_files({"pods.log": log, "events.txt": f"3m  Warning  Evicted  {event}\n"})

    assert (report.findings[0].signature, culprits(report)) == ("kubernetes-evicted", named)


PODS = """NAME   READY   STATUS      RESTARTS   AGE
tr-0   0/1     Error       0          41m
tr-1   0/1     OOMKilled   0          41m
tr-2   0/1     Error       0          41m
tr-3   0/1     Error       0          41m
"""


@pytest.mark.parametrize(
    ("ranks", "named"),
    [((0, 3, 1, 2), [3]), ((1, None, 2, 3), []), ((None, None, None, None), [1])],
    ids=["its own log", "the logs of others", "no log"],
)
def test_the_log_of_a_pod_tells_its_rank_and_not_its_number(
    ranks: tuple[int | None, ...], named: list[int]
) -> None:
    """An operator may count otherwise than the launcher; by its number alone it may be another."""
    logs = {
        f"tr-{pod}.log": "".join(f"[rank{rank}] step {n} loss 0.{n}\n" for n in range(6))
        for pod, rank in enumerate(ranks)
        if rank is not None
    }

    report = diagnosed_files({**logs, "pods.txt": PODS})

    assert (report.findings[0].category, culprits(report)) == ("rank-oom-killed", named)


def started(rank: int, minute: int) -> str:
    """Write the first lines of a rank."""
    return (
        f"2025-11-10 03:{minute:02d}:00 rank={rank} world=4 starting\n"
        f"2025-11-10 03:{minute:02d}:01 rank={rank} init_process_group\n"
    )
