"""Handing GPU memory handles to a neighbour on the same host failed.

With cuMem (the default since NCCL 2.19 or so) ranks of a host exchange handles over Unix
sockets. That fails when they live in different containers or network namespaces, when a socket
file in /tmp is in the way, or when the neighbour has died.

If a neighbour ended first, that is the cause and this an effect.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-local-handle-exchange",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="Ranks of one host cannot pass each other memory handles",
    when=log(
        r"UDS: (?:Sending data over|Binding to|Receiving data over|Creating) socket \S+ failed",
        r"ncclProxyCallBlockingUDS call to tpRank \d+\(\w+\) failed",
        r"ncclProxyClientGetFd call to tpRank \d+ handle \w+ failed",
    ),
    means=(
        "GPU memory could not be shared between two ranks of one host, so their direct "
        "connection cannot be set up."
    ),
    confidence=0.6,
    remedies=(
        (
            "Run all ranks of a host in one container or with a shared network namespace "
            "(--network=host)."
        ),
        "Set NCCL_CUMEM_ENABLE=0 to confirm and to get going.",
    ),
    next_steps=(
        "Did another rank of the host end before? Its own error comes first",
        "ss -xl | grep nccl-socket; readlink /proc/PID/ns/net  # one network for all ranks?",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node1:40:77 [4] misc/ipcsocket.cc:212 NCCL WARN UDS: Sending data over socket "
            "/tmp/nccl-socket-4-1a2b failed : Connection refused (111)"
        ),
        (
            "node1:40:77 [4] misc/ipcsocket.cc:80 NCCL WARN UDS: Binding to socket "
            "/tmp/nccl-socket-4-1a2b failed : Address already in use (98)"
        ),
        (
            "node1:40:77 [4] proxy.cc:1200 NCCL WARN ncclProxyClientGetFd call to tpRank 5 "
            "handle 0x7f4500 failed : 3"
        ),
        (
            "node1:40:77 [4] proxy.cc:1120 NCCL WARN ncclProxyCallBlockingUDS call to tpRank "
            "3(5d3b1a) failed : 2"
        ),
    ),
    misses=("node1:40:77 [4] NCCL INFO [Proxy Service UDS] exit: stop 1 abortFlag 0",),
    outranks=("launcher-exit-code",),
)
