"""All ranks have begun NCCL's set-up and none gets through its bootstrap.

In the bootstrap every rank connects to rank 0's address over plain TCP, before any fast network
is used. All began (Init START) and nobody saw all the others: the addresses that were chosen
cannot reach each other. The usual reasons are an interface that exists on each host and joins
none of them (docker0, a bridge, a link-local address), IPv6 on some and IPv4 on others, and a
firewall on the ephemeral ports. Gloo may work all the same: it chooses its interface otherwise.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-bootstrap",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    level="wait",
    title="All ranks seen began NCCL's set-up and none got through the bootstrap",
    when=nccl_start("bootstrap"),
    means=(
        "{who} {does}: plain TCP between the hosts, at the addresses of the interface that each "
        "has printed. Nobody is missing among those seen; the addresses do not reach each other."
    ),
    confidence="possible",
    remedies=(
        "Set NCCL_SOCKET_IFNAME to the interface that joins the hosts (=eth0, or ^docker0,lo).",
        "Open the ephemeral TCP ports between the hosts.",
    ),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of a shared interface: it starts if this is it.",
        "grep -h 'Bootstrap *: Using' LOGS  # one interface and one family of addresses?",
        "nc -vz ADDRESS_OF_RANK_0 PORT  # from another host",
    ),
    gives_way=True,
    explains=("stuck-together",),
)
