"""gloo cannot find an address of its own host.

Without GLOO_SOCKET_IFNAME gloo resolves the host name and binds to the result. A stale
/etc/hosts entry, a name that points to another machine or to a load balancer, or a container
without an entry of its own makes this fail.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-hostname-unresolved",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    title="The host name does not lead to a local address on {who}",
    when=log(
        r"Unable to resolve hostname to a \(local\) address",
        r"Cannot resolve \S+ to a \(local\) address",
        blames=Blames.SPEAKER,
    ),
    means=(
        "gloo listens on the address of the host's own name. The name leads nowhere, or to an "
        "address that this machine does not have, so the group cannot be created."
    ),
    confidence=0.9,
    remedies=(
        "Set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes.",
        "Or correct /etc/hosts so that the host's name leads to one of its own addresses.",
    ),
    next_steps=("getent hosts $(hostname); ip -br addr",),
    links=(
        "https://pytorch.org/docs/stable/distributed.html#choosing-the-network-interface-to-use",
    ),
    matches=(
        (
            "RuntimeError: [enforce fail at "
            "../third_party/gloo/gloo/transport/tcp/device.cc:211] . Unable to resolve hostname "
            "to a (local) address"
        ),
        "RuntimeError: Cannot resolve node17 to a (local) address",
    ),
    misses=("RuntimeError: Cannot resolve symbol ncclCommRegister",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
