"""A gloo rank cannot connect to another one at an address of a network.

The store works, so the ranks know each other's addresses; the connection to the one that is
named finds no answer. A firewall that lets only the store's port through (gloo uses random
ones), an interface that does not connect the nodes, or a peer that died while the group was
created.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-peer-unreachable",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="gloo cannot connect to {peer} port {port}",
    when=log(
        (
            r"gloo/transport/tcp/pair\.(?:cc|h):\d+\] (?:Connect timeout|timed out connecting|"
            r"connect) ?\[(?P<peer>(?:[1-9]\d?|1[013-9]\d|12[0-689]|2\d\d)\.\d+\.\d+\.\d+|"
            r"[0-9a-f]{2,4}:[0-9a-f:]+)\]:(?P<port>\d+)"
        ),
    ),
    means=(
        "The store works, but the direct connection to the rank at {peer} does not: a firewall, "
        "an interface that does not connect the nodes, or a rank that has ended."
    ),
    confidence=0.65,
    remedies=(
        "Set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the interface that connects the nodes.",
        "Open all ports between the nodes of the job.",
        "See whether the rank at that address ended at that moment.",
    ),
    next_steps=(
        "ip addr; ip route get {peer}  # on the host that says so",
        "nc -vz {peer} 29500  # an open port there?",
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
    ),
    misses=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[127.0.1.1]:38255: Connection refused"
        ),
        (
            "RuntimeError: Gloo connectFullMesh failed with "
            "[../third_party/gloo/gloo/transport/tcp/pair.h:301] Connect timeout [none]"
        ),
    ),
    outranks=("gloo-mesh-failed", "gloo-peer-gone", "launcher-exit-code"),
)
