"""The direct gloo connections between ranks fail although the store works.

Every rank publishes the address that its host name resolves to. On many systems that is
127.0.1.1 or the address of a management network, which other nodes cannot reach; or a firewall
allows the store's port only, while gloo uses random ones. A peer that died while the group was
created gives the same line.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-mesh-failed",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    title="gloo ranks cannot connect to each other",
    when=log(
        r"Gloo connectFullMesh failed with ",
        (
            r"gloo/transport/tcp/pair\.(?:cc|h):\d+\] (?:Connect timeout|timed out "
            r"connecting|connect \[[^\]]*\]:\d+: (?:Connection refused|No route to "
            r"host|Connection timed out))"
        ),
    ),
    means=(
        "The store works, but the direct connections between ranks do not. The address that a "
        "rank published is not reachable for the others: loopback, an interface of a private "
        "network, or a closed port."
    ),
    confidence=0.6,
    remedies=(
        (
            "Set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the interface that connects the "
            "nodes."
        ),
        "Remove the 127.0.1.1 entry of the host's name from /etc/hosts.",
        "Open all ports between the nodes of the job.",
    ),
    next_steps=(
        "getent hosts $(hostname)  # on each node",
        "Check that no rank died at that moment",
    ),
    links=(
        "https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    matches=(
        "RuntimeError: [gloo/transport/tcp/pair.cc:611] Connect timeout [10.17.27.13]:27023",
        (
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/"
            "tcp/pair.cc:799] connect [10.1.0.7]:38255: No route to host"
        ),
        (
            "RuntimeError: Gloo connectFullMesh failed with "
            "[../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
        ),
        (
            "[E1121 02:09:00.9 ProcessGroupGloo.cpp:143] Gloo connectFullMesh failed with "
            "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[127.0.1.1]:38255: Connection refused"
        ),
    ),
    misses=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
            "closed by peer [10.0.0.7]:35612"
        ),
    ),
    outranks=("gloo-peer-gone",),
)
