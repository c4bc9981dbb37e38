"""NCCL finds no network interface to use.

NCCL_SOCKET_IFNAME names an interface that this host does not have (a name copied from another
node), the interface has no address, or only an IPv6 one while NCCL_SOCKET_FAMILY asks for IPv4.
"=eth0" is exact, "eth" a prefix, "^docker" an exclusion.

Only hosts where the name is wrong print it. The other ranks wait in communicator set-up.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-no-socket-interface",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="NCCL found no usable network interface on the host of {who}",
    when=log(
        r"Bootstrap ?: no socket interface found",
        r"NET/Socket ?: no interface found",
        r"NET/Socket ?: No usable listening interface found",
        r"no device found matching .*verify NCCL_OOB_NET_IFNAME",
        r"Net ?: No interface found in the same subnet as remote address",
        blames=Blames.SPEAKER,
    ),
    means=(
        "NCCL cannot find a network interface on this host, mostly because NCCL_SOCKET_IFNAME "
        "names one that does not exist here. Its ranks fail and the others wait for them."
    ),
    confidence=0.97,
    remedies=(
        (
            "Unset NCCL_SOCKET_IFNAME, or set it to an interface that exists on every host (a "
            "prefix such as 'eth' or an exclusion such as '^docker,lo' is safer than a full "
            "name)."
        ),
        "If hosts name their interfaces differently, set it per host.",
    ),
    next_steps=(
        "ip -br addr  # on this host and on one that works",
        "grep 'NCCL_SOCKET_IFNAME set' LOG  # in the NCCL INFO log",
    ),
    links=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    ),
    matches=(
        "node7:4711:4711 [0] bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found",
        "node7:4711:4802 [0] transport/net_socket.cc:72 NCCL WARN NET/Socket : no interface found",
        (
            "node7:4711:4802 [0] bootstrap.cc:130 NCCL WARN no device found matching =eth9, "
            "verify NCCL_OOB_NET_IFNAME"
        ),
        (
            "node7:4711:4802 [0] misc/socket.cc:220 NCCL WARN Net : No interface found in the "
            "same subnet as remote address 10.1.0.4<43210>"
        ),
        (
            "node7:4711:4802 [0] transport/net_socket.cc:90 NCCL WARN NET/Socket : No usable "
            "listening interface found"
        ),
    ),
    misses=(
        "node7:4711:4711 [0] NCCL INFO Bootstrap: Using eth0:10.0.0.1<0>",
        "node7:4711:4711 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
    ),
    outranks=("launcher-exit-code",),
)
