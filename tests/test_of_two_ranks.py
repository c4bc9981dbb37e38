"""What follows where there are two ranks, and what does not where a paste ends."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

START = "torchrun --nnodes={nodes} --nproc_per_node={each} --node-rank=1 serve.py\n"
WAITS = (
    "[rank1]:[E327 09:31:09.976973235 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=77, OpType={op}, NumelIn=18, NumelOut=18, "
    "Timeout(ms)=600000) ran for 600086 milliseconds before timing out.\n"
)


def test_the_peer_of_a_receive_is_the_other() -> None:
    """Two nodes with a rank each: what rank 1 receives in vain, rank 0 should have sent."""
    files = {"start.sh": START.format(nodes=2, each=1), "node1.log": WAITS.format(op="RECV")}
    first = diagnosed_files(files).findings[0]

    assert (first.signature, first.culprit_ranks) == ("waits-for-named-rank", (0,))
    assert first.confidence < 0.7


@pytest.mark.parametrize("op", ["RECV", "ALLREDUCE"])
def test_the_peer_is_not_known(op: str) -> None:
    """Of four ranks it may be any."""
    files = {"start.sh": START.format(nodes=2, each=2), "node1.log": WAITS.format(op=op)}

    assert not any(f.culprit_ranks for f in diagnosed_files(files).findings)


def test_the_other_of_two_in_a_collective_is_a_possibility() -> None:
    """It may be in it as well, and its log not at hand; there is no other to look at."""
    files = {"start.sh": START.format(nodes=2, each=1), "node1.log": WAITS.format(op="ALLREDUCE")}
    first = diagnosed_files(files).findings[0]

    assert (first.signature, first.culprit_ranks) == ("waits-for-silent-rank", (0,))
    assert first.confidence < 0.5


CALL = (
    "n1:{pid}:{pid} [{rank}] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f recvbuff 0x7f "
    "count 64 datatype 7 op 0 root 0 comm 0x5{rank} [nranks=2] stream 0x9\n"
)


def calls(rank: int, first: int, last: int) -> str:
    """Print calls of one rank, by number."""
    return "".join(CALL.format(pid=900 + rank, rank=rank, number=n) for n in range(first, last))


def test_an_excerpt_that_ends_between_two_calls() -> None:
    """Rank 1 printed two calls less when the paste ends: that is a possibility, and no more."""
    report = diagnosed_files({"nccl.log": calls(1, 12, 16) + calls(0, 12, 18)})

    assert all(f.confidence < 0.5 for f in report.findings if f.culprit_ranks)
