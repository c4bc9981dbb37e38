"""A host that several ranks name as the peer which does not answer."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

TABLE = "".join(
    f"#  Rank  {rank} Group  0 Pid  {400 + rank} on       ib-{host} device  0 [0x1b] A100-SXM4\n"
    for rank, host in enumerate("abcd")
)
BOOTSTRAP = "".join(
    f"ib-{host}:{400 + rank}:{400 + rank} [0] NCCL INFO Bootstrap : Using eno1:10.2.4.{rank}<0>\n"
    for rank, host in enumerate("abcd")
)
LOST = (
    "ib-{host}:{pid}:977 [0] transport/net_ib.cc:1717 NCCL WARN NET/IB : Got completion from peer "
    "10.2.4.{peer}<52811> with status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_0\n"
)


TWO_ON_C = TABLE + (
    "#  Rank  4 Group  0 Pid    404 on       ib-c device  1 [0x2b] A100-SXM4\n"
    "#  Rank  5 Group  0 Pid    405 on       ib-b device  1 [0x2b] A100-SXM4\n"
)


def _lost(*pairs: tuple[int, int]) -> str:
    return "".join(LOST.format(host="abcd"[me], pid=400 + me, peer=peer) for me, peer in pairs)


@pytest.mark.parametrize(
    ("pairs", "culprits"),
    [(((1, 2), (3, 2)), (2,)), (((1, 2),), None), (((1, 2), (3, 0)), None)],
    ids=["two of one", "one alone", "of two"],
)
def test_who_is_named_by_several(
    pairs: tuple[tuple[int, int], ...], culprits: tuple[int, ...] | None
) -> None:
    """Its address is that of its bootstrap line, its rank that of the table of nccl-tests."""
    finding = diagnosed_files({"nccl-tests.log": TABLE + BOOTSTRAP + _lost(*pairs)}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("nccl-ib-retry-exceeded", culprits)


def test_all_ranks_of_the_host_are_named() -> None:
    """The address is that of the host."""
    text = TWO_ON_C + BOOTSTRAP + _lost((1, 2), (3, 2))

    assert diagnosed_files({"nccl-tests.log": text}).findings[0].culprit_ranks == (2, 4)


def test_two_ranks_of_one_host_may_have_a_bad_card_of_their_own() -> None:
    """It takes two hosts that complain about a third."""
    other = LOST.format(host="b", pid=405, peer=2)
    text = TWO_ON_C + BOOTSTRAP + _lost((1, 2)) + other

    assert diagnosed_files({"nccl-tests.log": text}).findings[0].culprit_ranks is None


REFUSED = (
    "ib-{host}:{pid}:977 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
    "10.2.4.2<44713> failed : Connection refused\n"
)


def test_who_ended_because_nobody_answered_is_not_the_one_that_died() -> None:
    """Its exit code may come of the connection that was refused."""
    refused = "".join(REFUSED.format(host="abcd"[me], pid=400 + me) for me in (1, 3))
    ended = "srun: error: ib-b: task 1: Exited with exit code 1\n"
    report = diagnosed_files({"job.log": TABLE + BOOTSTRAP + refused + ended})

    assert report.findings[0].signature == "nccl-connect-refused"
    assert all(1 not in (finding.culprit_ranks or ()) for finding in report.findings)
