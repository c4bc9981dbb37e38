"""Ranks went silent while NCCL connected hosts over sockets.

The last lines say "via NET/Socket": the ranks have met, and their data connections do not come
about. They may use other interfaces than the meeting did, some of which other hosts cannot reach,
or ports that a firewall closes.

With the interface named the same job starts: that proves it.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-sockets",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL hangs while it connects hosts over sockets",
    when=nccl_start("connecting", via="NET/Socket"),
    means=("The last lines of the ranks tell of connections over sockets. They do not come about."),
    confidence="possible",
    remedies=(
        "Give NCCL the one interface that all hosts share, on every rank.",
        "Open all ports above 1024 between the hosts.",
    ),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of one interface: it starts if this is it.",
        "grep 'NET/Socket : Using' LOG  # of every rank",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    gives_way=True,
    explains=("stuck-together",),
)
