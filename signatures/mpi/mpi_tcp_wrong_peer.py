"""A connection came from an address that is not the peer's known one.

Hosts with several addresses on one network, NAT, docker bridges with equal addresses on all
hosts, or another Open MPI version. The connection is dropped; Open MPI says that the job may
not continue properly.

The job often hangs in the first larger message.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-tcp-wrong-peer",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="MPI got connections from addresses it does not know",
    when=log(
        r"Open MPI accepted a TCP connection from what appears to be a",
        r"Open MPI detected an inbound MPI TCP connection request from a peer",
        (
            r"The TCP BTL received an inbound socket connection from (?:an unidentified|a peer "
            r"that did)"
        ),
    ),
    means="Connections between the processes come from unexpected addresses and are dropped.",
    confidence=0.65,
    remedies=(
        "Pin the network with --mca btl_tcp_if_include SUBNET/CIDR on all hosts.",
        "Use the same Open MPI version everywhere.",
    ),
    next_steps=("ip -br addr  # on all hosts: is one address on several of them (172.17.0.1)?",),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        "WARNING: Open MPI accepted a TCP connection from what appears to be a",
        "Open MPI detected an inbound MPI TCP connection request from a peer",
        "The TCP BTL received an inbound socket connection from an unidentified",
    ),
    misses=("WARNING: Open MPI failed to TCP connect to a peer MPI process.  This",),
    outranks=("launcher-exit-code",),
)
