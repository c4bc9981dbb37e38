"""The TCP transport of Open MPI cannot connect to a peer.

It picked an address that the hosts do not share (docker0, virbr0, a management network), or a
firewall drops the ports. Open MPI itself says that the job may now hang.

If the peer's process had ended before, that is the cause.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-tcp-connect-failed",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="MPI could not connect to a peer over TCP",
    when=log(
        r"mca_btl_tcp_endpoint_complete_connect\] connect\(\) to \S+ failed",
        r"mca_btl_tcp_endpoint_start_connect.* failed",
        r"Open MPI failed to TCP connect to a peer MPI process",
        r"Open MPI failed to handshake with a connecting peer MPI",
    ),
    means="Processes tried to connect over an address that does not work between these hosts.",
    confidence=0.75,
    remedies=(
        (
            "Pin the network: --mca btl_tcp_if_include SUBNET/CIDR, or exclude "
            "docker0,virbr0,lo with btl_tcp_if_exclude."
        ),
        "Open TCP ports between the nodes.",
    ),
    next_steps=("ip -br addr; nc -vz OTHER_HOST PORT  # on both hosts",),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        (
            "[n0042][[51384,1],7][btl_tcp_endpoint.c:625:mca_btl_tcp_endpoint_complete_connect]"
            " connect() to 172.17.0.1 failed: Connection refused (111)"
        ),
        "WARNING: Open MPI failed to TCP connect to a peer MPI process.  This",
        (
            "[n0042][[5138,1],7][btl_tcp_endpoint.c:803:mca_btl_tcp_endpoint_complete_connect] "
            "connect() to 10.0.0.2:1024 failed: No route to host (113)"
        ),
        (
            "[n0042][[51384,1],7][btl_tcp_endpoint.c:730:mca_btl_tcp_endpoint_start_connect] "
            "bind on local address (10.1.0.4:0) failed: Cannot assign requested address (99)"
        ),
        "WARNING: Open MPI failed to handshake with a connecting peer MPI",
    ),
    misses=(
        (
            "[n0042][[51384,1],7][btl_tcp_frag.c:230:mca_btl_tcp_frag_recv] "
            "mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)"
        ),
    ),
    outranks=("launcher-exit-code",),
)
