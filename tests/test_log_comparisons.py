"""What comparing ranks tells where no line does: who is absent, who failed first, who was late.

Each table holds evidence of invented programs, and near misses that must blame nobody.
"""

from __future__ import annotations

import pytest
from log_docs import diagnosed

Logs = dict[int | None, str]

GLOO = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def watchdog(rank: int, at: str = "18:44:16", *, ran: int = 600_031, seq: int = 52) -> str:
    """Write the line in which a rank gives up a call, in torch 2.6."""
    return (
        f"[rank{rank}]:[E1206 {at}.{rank}17283000 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, "
        f"NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for {ran} milliseconds before "
        "timing out.\n"
    )


def gloo(rank: int, error: str) -> str:
    """Write a traceback in a gloo all_reduce."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/srv/rl/learner.py", line 88, in update\n'
        "    dist.all_reduce(grads)\n"
        f'  File "{GLOO}", line 2810, in all_reduce\n'
        "    work.wait()\n"
        f"RuntimeError: [../third_party/gloo/gloo/transport/tcp/{error}"
    )
    return "".join(f"[rank{rank}]: {line}\n" for line in text.split("\n"))


WAITED = "unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
CLOSED = "pair.cc:534] Connection closed by peer [10.0.0.7]:20111"


def row(rank: int, code: int, at: str = "18:44:20") -> str:
    """Write one entry of torchrun's table."""
    return (
        f"[{rank}]:\n  time      : 2026-12-06_{at}\n  host      : n1\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {700 + rank})\n"
        "  error_file: <N/A>\n  traceback : N/A\n"
    )


def begun(rank: int, size: int = 4, state: str = "START") -> str:
    """Write that NCCL begins a communicator of the whole job."""
    return (
        f"n1:{700 + rank}:{760 + rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x55{rank} rank "
        f"{rank} nranks {size} cudaDev {rank} nvmlDev {rank} busId {rank + 1}b000 commId 0x77 - "
        f"Init {state}\n"
    )


def joining(rank: int, world: int, count: int) -> str:
    """Write that a rank waits in the start-up barrier."""
    return (
        f"[rank{rank}]: RuntimeError: Timed out initializing process group in store based barrier "
        f"on rank: {rank}, for key: store_based_barrier_key:1 (world_size={world}, "
        f"worker_count={count}, timeout=0:30:00)\n"
    )


ABSENT: dict[str, tuple[Logs, tuple[int, ...]]] = {
    "all but one gave up, and that one was ended by the launcher": (
        {None: "".join(row(r, -15 if r == 5 else -6) for r in range(8))},
        (5,),
    ),
    "the same, where most printed nothing of it": (
        {
            None: watchdog(0)
            + watchdog(3)
            + "".join(row(r, -15 if r == 5 else -6) for r in range(8))
        },
        (5,),
    ),
    "all but one began NCCL's set-up, in one log": (
        {None: "learner 0.3 starts\n" + begun(0) + begun(1) + begun(3)},
        (2,),
    ),
    "all who joined say so, and one of two is not among them": ({None: joining(0, 2, 1)}, (1,)),
    "a host's ranks, where the barrier counts the others": (
        {None: "".join(joining(r, 8, 4) for r in range(4))},
        (4, 5, 6, 7),
    ),
    "all others waited in gloo, and one speaks of its own work": (
        {r: gloo(r, WAITED) for r in range(3)} | {3: "refreshing replay buffer 17\n"},
        (3,),
    ),
}

NOT_ABSENT: dict[str, Logs] = {
    "one watchdog is enough for a launcher to end all": {
        None: watchdog(2) + "".join(row(r, -6 if r == 2 else -15) for r in range(8))
    },
    "as many were ended as gave up": {
        None: watchdog(0) + "".join(row(r, -6 if r % 2 else -15) for r in range(8))
    },
    "a log that breaks off where ranks give up": {
        None: "step 7\n" + begun(0) + begun(1) + begun(2) + watchdog(0) + watchdog(1) + "[rank2]:["
    },
    "more joined the barrier than say so": {None: joining(0, 4, 3) + joining(1, 4, 3)},
    "one rank's log alone": {0: watchdog(0) + "[rank0]: world_size=4\n"},
    "all aborted": {None: watchdog(0) + "".join(row(r, -6) for r in range(4))},
}

FIRST: dict[str, tuple[Logs, tuple[int, ...]]] = {
    "an exception, while the others time out, with NCCL's set-up in the log": (
        {
            None: "".join(begun(r, state="COMPLETE") for r in range(4))
            + "[rank3]: ValueError: row 17 has 11 columns\n"
            + "".join(watchdog(r) for r in range(3))
        },
        (3,),
    ),
    "the same in logs of single ranks": (
        {r: begun(r, state="COMPLETE") + watchdog(r) for r in range(3)}
        | {
            3: begun(3, state="COMPLETE")
            + '[rank3]: Traceback (most recent call last):\n[rank3]:   File "/srv/mix/rows.py", '
            "line 31, in decode\n[rank3]:     check(row)\n[rank3]: ValueError: row 17\n"
        },
        (3,),
    ),
    "a rank that was killed, while the others lose it": (
        {r: gloo(r, CLOSED) for r in (0, 2, 3)} | {None: "".join(row(1, -9))},
        (1,),
    ),
    "mpirun names the first that ended, which crashed": (
        {
            2: "Fatal Python error: Segmentation fault\n",
            None: "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 11 "
            "(Segmentation fault).\n",
            0: gloo(0, CLOSED),
        },
        (2,),
    ),
}

NOT_FIRST: dict[str, Logs] = {
    "mpirun names the first that ended, whose watchdog gave up": {
        None: "".join(watchdog(r) for r in range(4))
        + "mpirun noticed that process rank 2 with PID 0 on node n1 exited on signal 6 (Aborted).\n"
    },
    "mpirun names the first that ended, which waited in vain": {
        **{r: gloo(r, WAITED if r else CLOSED) for r in range(4)},
        None: "mpirun detected that one or more processes exited with non-zero status\n"
        "  Process name: [[4711,1],1]\n  Exit code:    1\n",
    },
    "a download that is tried again is no lost rank": {
        0: "WARN try 1 of 5: ConnectionResetError(104, 'Connection reset by peer')\n"
        "step 3 loss 2.1\nstep 4 loss 2.0\n",
        1: "step 3 loss 2.1\nstep 4 loss 2.0\n",
        2: "step 3 loss 2.1\nmixing shards\n",
    },
}

LATE: dict[str, tuple[Logs, tuple[int, ...]]] = {
    "one gives up later than by the limit": (
        {r: watchdog(r) for r in range(3)} | {3: watchdog(3, "18:57:41")},
        (3,),
    ),
    "the same in one log of all ranks": (
        {None: "".join(watchdog(r) for r in (0, 1, 3, 4)) + watchdog(2, "19:20:02")},
        (2,),
    ),
    "one of two, by less than clocks are set apart": (
        {0: watchdog(0), 1: watchdog(1, "18:56:50")},
        (1,),
    ),
    "one only notices that the others are gone, long after": (
        {
            **{r: watchdog(r) for r in range(3)},
            3: "[rank3]:[E1206 18:59:51.817283000 ProcessGroupNCCL.cpp:2027] [PG ID 0 PG GUID "
            "0(default_pg) Rank 3] Collective WorkNCCL(SeqNum=52, OpType=ALLREDUCE, NumelIn=4096, "
            "NumelOut=4096, Timeout(ms)=600000) raised the following async exception: NCCL error: "
            "remote process exited or there was a network error, NCCL version 2.21.5\n",
        },
        (3,),
    ),
}

NOT_LATE: dict[str, Logs] = {
    "one came five minutes after the others, and all were there": {
        **{r: watchdog(r) for r in range(3)},
        3: watchdog(3, "18:49:16"),
    },
    "one host's clock is an hour ahead": {
        **{r: watchdog(r) for r in range(4)},
        **{r: watchdog(r, "19:44:16") for r in range(4, 8)},
    },
    "of two ranks, one's clock is set to another zone": {
        0: watchdog(0),
        1: watchdog(1, "19:14:16"),
    },
    "all at once": {r: watchdog(r) for r in range(4)},
}


def blamed(logs: Logs) -> set[int]:
    """Return the ranks that the report names, sure enough."""
    return {
        rank
        for finding in diagnosed(logs).findings
        if finding.confidence >= 0.5 and finding.caused_by is None
        for rank in finding.culprit_ranks or ()
    }


@pytest.mark.parametrize(
    ("logs", "culprits"),
    [*ABSENT.values(), *FIRST.values(), *LATE.values()],
    ids=[*ABSENT, *FIRST, *LATE],
)
def test_comparing_the_ranks_names(logs: Logs, culprits: tuple[int, ...]) -> None:
    """The first finding names the rank by what it lacks, when it ended or when it came."""
    assert diagnosed(logs).findings[0].culprit_ranks == culprits
    assert blamed(logs) == set(culprits)


@pytest.mark.parametrize(
    "logs",
    [*NOT_ABSENT.values(), *NOT_FIRST.values(), *NOT_LATE.values()],
    ids=[*NOT_ABSENT, *NOT_FIRST, *NOT_LATE],
)
def test_what_looks_like_it_blames_nobody(logs: Logs) -> None:
    """Silence, the first end and a late hour prove nothing by themselves."""
    assert blamed(logs) == set()
