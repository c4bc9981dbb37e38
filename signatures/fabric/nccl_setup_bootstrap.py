"""All ranks have begun NCCL's first communicator, and they have not met.

The last INFO line of each is "Init START": every rank knows whom to call and waits for answers.
The network over which they meet (NCCL_SOCKET_IFNAME, else the first that is up) does not carry
them: a bridge of a container, a firewall, an address that other hosts cannot reach.

Where a rank has not begun at all, that rank is the one to look for instead.
"""

from whyhang.analyzer.match import Kind, Signature, setting_up

SIGNATURE = Signature(
    id="nccl-setup-bootstrap",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="All ranks wait for each other in NCCL's bootstrap",
    when=setting_up("start"),
    means=(
        "Every rank has begun the communicator, and they never met. The network that NCCL chose "
        "for this does not connect all hosts."
    ),
    confidence=0.65,
    remedies=(
        "Give NCCL the interface that all hosts share, by name, on every rank.",
        "Open all ports above 1024 between the hosts.",
    ),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of a shared interface: it starts if this is it.",
        "grep 'Bootstrap' in every rank's log: are the addresses in one subnet?",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    outranks=("stuck-together",),
)
