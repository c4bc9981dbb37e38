"""GLOO_SOCKET_IFNAME names an interface that this host does not have.

Interface names differ between nodes, and inside containers they differ from the host's (eth0).
One value exported for all nodes then fits some of them only.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-interface-missing",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="No network interface {interface} on {who}, though GLOO_SOCKET_IFNAME names it",
    when=log(
        r"ifa != nullptr\. Unable to find (?:address|interface) for: (?P<interface>\S+)",
        blames=Blames.SPEAKER,
    ),
    means=(
        "gloo was told to use the interface {interface}, and this host has none of that name or "
        "it has no address. The group cannot be created here, so the other ranks wait."
    ),
    confidence=0.93,
    remedies=(
        "Set GLOO_SOCKET_IFNAME for each host to an interface that exists there, or unset it.",
        "Several names may be given, separated by commas.",
    ),
    next_steps=("ip -br addr  # on that host (inside the container)",),
    links=(
        "https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    matches=(
        (
            "RuntimeError: [enforce fail at "
            "/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable "
            "to find address for: eth9"
        ),
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] "
            "ifa != nullptr. Unable to find address for: ib0"
        ),
    ),
    misses=("NCCL WARN Bootstrap : no socket interface found",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
