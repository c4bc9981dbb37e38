"""Nobody is absent: the connections that were never made say where the path is broken."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding

PREFIX = "node{host}:70{rank}:70{rank} [0] NCCL INFO "
COMM = (
    "ncclCommInitRank comm 0x5{rank} rank {rank} nranks 4 cudaDev 0 busId {rank}b000 commId 0x77 - "
)
MET = "Bootstrap timings total 0.01 (create 0.0, send 0.0, recv 0.0, ring 0.0, delay 0.0)"
END = "Channel 00/0 : {sender}[{device}] -> {receiver}[0] [{way}] via {via}"
LOCAL = "Channel 00/0 : {rank}[0] -> {rank}[1] via P2P/IPC"
RINGS = "Connected all rings"

IB, SOCKET, PLUGIN = "NET/IB/2/GDRDMA", "NET/Socket/1", "NET/AWS Libfabric/0"


def log(
    via: str, *, connected: set[int], lost: set[str] = frozenset(), complete: bool = False
) -> str:  # type: ignore[assignment]
    """Write what four ranks on two hosts print of their ring 0-1-2-3; hosts join at 1-2 and 3-0.

    ``connected`` say so; ``lost`` are ends that are never printed, as "2 receive".
    """
    lines = []
    for rank in range(4):
        texts = [f"{COMM}Init START", MET, LOCAL]
        for sender, receiver in ((1, 2), (3, 0)):
            for way, speaker in (("send", sender), ("receive", receiver)):
                if speaker == rank and f"{rank} {way}" not in lost:
                    end = END.replace("{sender}", str(sender)).replace("{receiver}", str(receiver))
                    texts.append(end.format(device=0, way=way, via=via))
        texts += [RINGS] if rank in connected else []
        texts += [f"{COMM}Init COMPLETE"] if complete else []
        lines += [(PREFIX + one).format(rank=rank, host=rank // 2) for one in texts]
    return "\n".join(lines) + "\n"


def findings_of(text: str, **files: str) -> list[Finding]:
    """Return what the report says of connections."""
    findings = diagnosed_files({"job.log": text, **files}).findings
    return [one for one in findings if one.signature.startswith(("nccl-connection", "nccl-rails"))]


@pytest.mark.parametrize(
    ("text", "signature", "who"),
    [
        pytest.param(
            log(IB, connected={0, 3}),
            "nccl-connections-not-made",
            "rank 1 (node0) to rank 2 (node1)",
            id="the two that have not connected their rings",
        ),
        pytest.param(
            log(SOCKET, connected=set(), lost={"0 receive"}),
            "nccl-connections-over-sockets-not-made",
            "rank 3 (node1) to rank 0 (node0)",
            id="an end that was never set up",
        ),
        pytest.param(
            log("NET/OFI/0", connected={1, 2}, lost={"3 send"}),
            "nccl-connections-not-made",
            "rank 3 (node1) to rank 0 (node0)",
            id="over a plugin, with both signs",
        ),
    ],
)
def test_a_connection_that_was_never_made_is_named(text: str, signature: str, who: str) -> None:
    """Both hosts and the card are named; no rank is blamed for the path between them."""
    first = findings_of(text)[0]

    assert (first.signature, first.culprit_ranks) == (signature, None)
    assert f"connection from {who} via NET/" in first.title
    assert diagnosed_files({"job.log": text}).findings[0] == first


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(log(IB, connected={0, 1, 2, 3}, complete=True), id="all through"),
        pytest.param(log(IB, connected=set()), id="all ends there and nobody connected"),
        pytest.param(
            log(IB, connected=set(), lost={"2 receive"}).replace("1[0] -> 2[0]", "5[0] -> 7[0]"),
            id="numbers of another communicator",
        ),
        pytest.param(
            "".join(
                line + "\n"
                for line in log(IB, connected={0}, lost={"2 receive"}).splitlines()
                if not line.startswith("node1:702")
            ),
            id="an end whose log was not given",
        ),
    ],
)
def test_without_a_sign_of_which_connection_none_is_named(text: str) -> None:
    """Where nothing tells the connections apart, the way they all go is said as before."""
    assert findings_of(text) == []


CROSSING = "NCCL INFO Channel 03/0 : 7[3] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
RAILS = "NIC0: mlx5_0 -> eth2  10.40.1.0/24 (rail 0)\nNIC1: mlx5_1 -> eth3  {}/24 (rail 1)\n"


@pytest.mark.parametrize(
    ("channel", "rails", "settings", "reported"),
    [
        (CROSSING, RAILS.format("10.40.2.0"), "export NCCL_CROSS_NIC=0\n", True),
        (CROSSING, RAILS.format("10.40.2.0"), "NCCL_IB_HCA=mlx5_0,mlx5_1\n", True),
        (CROSSING.replace("7[3]", "4[1]"), RAILS.format("172.16.0.0"), "", True),
        (CROSSING, RAILS.format("10.40.1.0"), "", False),
        (CROSSING, RAILS.format("10.40.2.0"), "NCCL_IB_HCA=mlx5_0\n", False),
        (CROSSING.replace("7[3]", "4[0]"), RAILS.format("10.40.2.0"), "", False),
    ],
)
def test_a_ring_across_rails_that_are_networks_of_their_own(
    channel: str, rails: str, settings: str, *, reported: bool
) -> None:
    """A table of cards, the settings and one channel's line together tell; one of them does not."""
    findings = findings_of(channel, **{"nics.txt": rails, "env.txt": settings})

    assert bool(findings) is reported
    assert not reported or "mlx5_1" in findings[0].title
