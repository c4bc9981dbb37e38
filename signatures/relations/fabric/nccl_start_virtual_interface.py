"""NCCL's ranks try to meet over an interface that only exists within its host.

Without NCCL_SOCKET_IFNAME the first interface that is up is taken, and that may be the bridge of
a container runtime (docker0, cni0, virbr0, veth…). Ranks of other hosts cannot reach such an
address: everyone begins the communicator, and they never meet.

If only some ranks took such an interface, these are named.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-virtual-interface",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL tries to meet over {interface} ({address}), which other hosts cannot reach",
    when=nccl_start(
        "bootstrap",
        interface=("docker", "veth", "virbr", "cni", "br-", "flannel", "cali", "lxc", "podman"),
    ),
    means=(
        "{who} waits in NCCL's bootstrap with the address of a virtual interface, which leads "
        "nowhere from other hosts."
    ),
    confidence="likely",
    remedies=("Set NCCL_SOCKET_IFNAME to the interface that all hosts share (or ^docker,veth).",),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of that interface: it starts if this is it.",
        "ip -br addr  # on two of the hosts",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/913",),
    gives_way=True,
    explains=("nccl-start-bootstrap", "stuck-together"),
)
