"""From a few lines of those that waited to who did not come."""

from __future__ import annotations

import pytest
from gloo_docs import MEMBER, RESET, raised
from log_docs import TWO_NODES, Blame, blamed_besides, diagnosed, diagnosed_files

MISSED = (
    "[E1121 02:08:47.48 ProcessGroupGloo.cpp:67] "
    "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms"
)
ECHO = (
    "RuntimeError: Rank {} successfully reached monitoredBarrier, but received errors while "
    "waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
    " Original exception:\n"
    "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] "
    "Timed out waiting 4000ms for send operation to complete"
)
KEY = "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: /default_pg/0//cpu//0/{}"
JOINED = (
    "torch.distributed.DistStoreError: "
    "Timed out after 5 seconds waiting for clients. 2/3 clients joined."
)
NCCL_ID = (
    "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving "
    "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: "
    "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
)
OLD_ID = (
    "[rank{}]: torch.distributed.DistBackendError: [{}] is setting up NCCL communicator and "
    "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got "
    "error: Socket Timeout\n"
)
CLOSED = """\
Traceback (most recent call last):
  File "/srv/app/relay.py", line 52, in hand_over
    dist.{call}
  File "/opt/torch/distributed/distributed_c10d.py", line 2100, in {op}
    default_pg.{op}([tensor], peer, tag).wait()
RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:35612
"""
GLOO_LATE = (
    "{} RuntimeError: [unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation "
    "to complete\n"
)
LATE = (
    "[rank{0}]:[E1206 18:44:16.9 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
REFUSED = (
    "gpu1:1:9 [0] NCCL WARN socketStartConnect: Connect to 10.0.0.2<41033> failed : "
    "Connection refused\n"
)
STALLED = (
    "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks "
    "and are waiting for remainder of ranks for more than 60 seconds.\n"
)
CASES: dict[str, Blame] = {
    "the rank that rank 0 misses in a monitored barrier, though it has no log": (
        {0: MISSED},
        "monitored-barrier-missing-rank",
        (1,),
    ),
    "the one that speaks of something else while all others wait": (
        {None: "rank 1: returned\n" + GLOO_LATE.format("rank 0:")},
        "rank-not-waiting",
        (1,),
    ),
    "nobody, if all that speak waited": (
        {None: GLOO_LATE.format("[rank0]:") + GLOO_LATE.format("[rank1]:")},
        "gloo-timeout",
        None,
    ),
    "nobody for a refused connection, if the peer had been there before": (
        {None: TWO_NODES + REFUSED},
        "nccl-connect-refused-later",
        None,
    ),
    "the ranks for which Horovod's coordinator waits, not the coordinator": (
        {None: "[1,0]<stderr>:" + STALLED + "[1,0]<stderr>:avg_loss [missing ranks: 1, 3]\n"},
        "horovod-missing-ranks",
        (1, 3),
    ),
    "the one whose own log has no time-out, while all others ran into one": (
        {0: LATE.format(0), 1: LATE.format(1), 2: "step 7 loss 0.5\n", 3: LATE.format(3)},
        "rank-log-without-timeout",
        (2,),
    ),
    "the one of which there is no such line, though it may only be cut off": (
        {None: "[rank2]: step 7 loss 0.5\n" + "".join(LATE.format(n) for n in (0, 1, 3))},
        "waits-for-silent-rank",
        (2,),
    ),
    "the one that had come to its end when the others lost it": (
        {None: "rank 1: loop finished\n" + f"rank 0: {RESET}\n"},
        "rank-finished-early",
        (1,),
    ),
    "the one whose words stop in the middle, where all write to one log": (
        {
            None: "".join(f"[rank{n}]: step 9\n" for n in range(3))
            + f"[rank0]: {RESET}\n[rank2]: {RESET}\n"
        },
        "rank-went-silent",
        (1,),
    ),
    "the tasks that did not come, and not the traceback that says so": (
        {
            None: raised("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: no barrier")
            + "/job:jax_worker/replica:0/task:2\n/job:jax_worker/replica:0/task:5\n"
        },
        "coordination-barrier",
        (2, 5),
    ),
    "the tasks that did not come to the barrier at which they connect": (
        {
            None: raised("jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: no barrier")
            + "Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n"
            "/job:jax_worker/replica:0/task:1\n/job:jax_worker/replica:0/task:3\n"
        },
        "coordination-tasks-never-came",
        (1, 3),
    ),
    "the rank that the world size has no place for": (
        {
            None: "".join(
                "Waiting in store based barrier to initialize process group for rank: "
                f"{rank}, key: store_based_barrier_key:1 (world_size=4, worker_count=6, "
                "timeout=0:30:00)\n"
                for rank in (0, 1, 6)
            )
        },
        "store-barrier-overfull",
        (6,),
    ),
    "the rank that a receive was from, when the connection is closed": (
        {None: CLOSED.format(call="recv(buffer, src=2)", op="recv")},
        "gloo-peer-gone",
        (2,),
    ),
    "nobody, where calls with two ranks failed": (
        {
            None: CLOSED.format(call="recv(buffer, src=2)", op="recv")
            + CLOSED.format(call="send(buffer, 0)", op="send")
        },
        "gloo-peer-gone",
        None,
    ),
    "who is not among those that came, of as many as each of them tells": (
        {None: "".join(MEMBER.format(rank, rank + 1) for rank in (0, 1, 3))},
        "lightning-members-missing",
        (2, 4),
    ),
    "nobody, where two have one number": (
        {None: "".join(MEMBER.format(rank, rank + 1) for rank in (0, 1, 1))},
        "lightning-members-missing",
        None,
    ),
    "nobody, where the log is that of one rank": (
        {0: MEMBER.format(0, 1)},
        "lightning-members-missing",
        None,
    ),
    "the same, where the others only echo it": (
        {0: MISSED, 2: ECHO.format(2), 3: ECHO.format(3)},
        "monitored-barrier-missing-rank",
        (1,),
    ),
    "rank 0, if all others reached the barrier and nobody is named": (
        {1: ECHO.format(1), 2: ECHO.format(2)},
        "monitored-barrier-rank-zero-absent",
        (0,),
    ),
    "the rank whose address never appeared in the store": (
        {0: KEY.format(2), 1: KEY.format(2)},
        "gloo-rank-never-came",
        (2,),
    ),
    "who is no client of the store, if as many as joined say that they are": (
        {0: JOINED, 1: KEY.format(0)},
        "store-clients-missing",
        (2,),
    ),
    "nobody, if rank 0 itself waits for clients": ({0: JOINED}, "store-clients-missing", None),
    "rank 0, if it never published the NCCL id of the default group": (
        {1: NCCL_ID},
        "nccl-id-of-rank-zero-missing",
        (0,),
    ),
    "the same by torch 2.2, if the waiter counts alike in its group and in the job": (
        {None: OLD_ID.format(3, 3)},
        "nccl-id-of-rank-zero-missing",
        (0,),
    ),
    "nobody, if it counts otherwise in its group": (
        {None: OLD_ID.format(3, 1)},
        "nccl-id-never-came",
        None,
    ),
    "rank 0, whose seed a DataLoader waited for": (
        {
            None: raised(
                "RuntimeError: Timed out receiving the shared seed from the distribtued store on "
                "Rank 2. (world_size=4, timeout=1800)"
            )
        },
        "shared-seed-never-came",
        (0,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_log_blames(name: str) -> None:
    """The first finding is the cause, and it blames the right rank and no other."""
    logs, expected, culprits = CASES[name]

    report = diagnosed(logs)

    first = report.findings[0]
    assert (first.signature, first.culprit_ranks) == (expected, culprits)
    assert blamed_besides(report, culprits) == []


def test_who_is_late_at_each_report_of_horovod_is_not_stuck() -> None:
    """A tensor waits again, for a rank that had submitted it before: it was complete meanwhile."""
    report = STALLED.strip() + " grad.0 [ready ranks: {}], grad.1 [ready ranks: {}]\n"
    twice = report.format("0, 1", "0, 1") + "step 9\n" + report.format("0, 3", "0, 3")
    grows = report.format("0, 1", "0, 1") + report.format("0, 1, 3", "0, 1, 3")

    late, stuck = (diagnosed_files({"job.log": text}).findings[0] for text in (twice, grows))

    assert (late.category, late.culprit_ranks) == ("slow-not-hung", None)
    assert (stuck.category, stuck.culprit_ranks) == ("missing-rank-in-collective", (2,))
