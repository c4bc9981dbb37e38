"""NCCL's connections time out or find no route.

The peer announced an address that this host cannot reach: another subnet, a docker or storage
interface, a link-local address, a firewall, NAT. Unlike a refused connection nothing answered
at all.

NCCL picks one interface per host by itself; hosts with several networks need
NCCL_SOCKET_IFNAME. All high ports must be open between the nodes.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-connect-unreachable",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="NCCL cannot reach {peer} port {port} over the network",
    when=log(
        (
            r"[Cc]onnect to (?P<peer>[^\s<]+)<(?P<port>\d+)> (?:failed ?: ?|returned "
            r")(?:\d+\()?(?:No route to host|Connection timed out|Network is (?:unreachable|down)|"
            r"Host is down|Software caused connection abort|Permission denied|Invalid argument|"
            r"Operation not permitted|Cannot assign requested address)\)?(?:, exceeded| errno|$)"
        ),
    ),
    means=(
        "The address that the peer announced cannot be reached from this host, so the two "
        "cannot set up their connection."
    ),
    confidence=0.85,
    remedies=(
        "Set NCCL_SOCKET_IFNAME on all hosts to the interfaces of one common network.",
        "Open all TCP ports between the nodes of the job.",
    ),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of a shared interface.",
        "Compare the 'Bootstrap: Using' lines of all hosts: are they in one subnet?",
        "ping -c 3 ADDRESS; nc -vz ADDRESS PORT  # from this host",
    ),
    links=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
        "https://github.com/NVIDIA/nccl/issues/913",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:578 NCCL WARN socketPollConnect: connect to "
            "7.2.26.4<42307> returned Connection timed out, exceeded error retry count after "
            "35 attempts"
        ),
        (
            "node3:99:140 [0] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to "
            "128::1d<40861> returned 113(No route to host) errno 11(Resource temporarily "
            "unavailable)"
        ),
        (
            "node3:99:140 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to "
            "172.17.0.1<36085> failed : No route to host"
        ),
        (
            "node3:99:140 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
            "169.254.255.18<42219> failed : Software caused connection abort"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection timed out, retrying (3/34) after sleep for 300 msec"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to "
            "10.8.1.2<54709> failed : Connection refused"
        ),
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "nccl-connect-still-trying",
        "launcher-exit-code",
    ),
)
