"""Some ranks of a job offer IPv6 addresses to NCCL's bootstrap, others IPv4.

Each rank takes the first address of its interface. On hosts of different set-up that is once an
IPv6 and once an IPv4 address, and neither side can call the other.

The fewest ranks are named; with two halves nobody is.
"""

from whyhang.analyzer.match import Kind, Signature, unlike

SIGNATURE = Signature(
    id="nccl-address-families-differ",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} offers NCCL an {theirs} address, the others {usual}",
    when=unlike("address-family"),
    means="Ranks with addresses of different families cannot call each other.",
    confidence="likely",
    remedies=("Set NCCL_SOCKET_FAMILY=AF_INET (or AF_INET6) for all ranks.",),
    next_steps=(
        "Run again with NCCL_SOCKET_FAMILY=AF_INET: it starts if this is it.",
        "ip -br addr  # on a host of each kind",
    ),
    explains=("nccl-start-bootstrap", "stuck-together"),
)
