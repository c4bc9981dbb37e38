"""NCCL was being set up when the logs ended: how far each rank had come.

With NCCL_DEBUG=INFO each rank prints its interface, its network, Init START, topology, channels and
Init COMPLETE. Some ranks are further than others, or all stand in one phase.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NcclPhase, NcclSetup, SignOfLife
from whyhang.analyzer.findings.signature import CLEAR, GUESSED
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.report import Collective, Evidence

MEANS = {
    NcclPhase.INTERFACE: "has chosen its interface and not begun the set-up",
    NcclPhase.NETWORK: "has chosen its network and not begun the set-up",
    NcclPhase.BOOTSTRAP: "stands in the bootstrap, where all ranks find each other",
    NcclPhase.TOPOLOGY: "has seen all ranks and stands in finding the topology",
    NcclPhase.CHANNELS: "has planned its channels and not connected any",
    NcclPhase.CONNECTING: "stands in connecting its channels",
    NcclPhase.CONNECTED: "has connected its channels and stands in the last barrier of the set-up",
    NcclPhase.COMPLETE: "has completed the set-up",
}

NOT_BEGUN = {NcclPhase.INTERFACE, NcclPhase.NETWORK}

VIRTUAL = ("docker", "veth", "virbr", "cni", "br-", "flannel", "cali", "lxc", "podman")
"""How the names of interfaces begin that other hosts cannot reach."""

MAX_QUOTES = 6


def incomplete(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that have not begun, or those that are not through."""
    stages = _open_stages(case)
    if not stages:
        return
    low = min(stage.phase for stage in stages.values())
    through = [rank for rank, stage in stages.items() if stage.phase is NcclPhase.COMPLETE]
    # In between all phases lies an exchange with all ranks: who is ahead by one is not through.
    if low not in NOT_BEGUN and not through:
        return
    behind = tuple(
        rank
        for rank in sorted(stages)
        if (rank not in through if through else stages[rank].phase == low)
    )
    ahead = tuple(sorted(set(stages) - set(behind)))
    few = len(behind) < len(ahead)
    complete = all(stages[rank].phase is NcclPhase.COMPLETE for rank in ahead)
    does = MEANS[stages[behind[0]].phase]
    yield Hit(
        members=tuple(m.id for m in case.job.members if m.rank in behind),
        ranks=behind,
        affected=tuple(m.id for m in case.job.members if m.rank in ahead),
        names_culprit=few,
        strength=CLEAR if few else GUESSED,
        evidence=_quotes(stages, (*behind[:3], *ahead[:2])),
        collective=Collective(op="comm_init"),
        fields={
            "who": queries.ranks_in_words(behind),
            "others": queries.ranks_in_words(ahead),
            "does": _many(does) if len(behind) > 1 else does,
            "state": "complete" if complete else "begun",
            "count": f"{len(ahead)} of {case.job.world_size or len(stages)}",
        },
    )


def over_virtual_interface(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks in the bootstrap that mean to meet over such an interface."""
    stages = _all_in(case, NcclPhase.BOOTSTRAP)
    chosen = {rank: s for rank, s in _setups(case) if s.interface and rank in stages}
    odd = {rank: s for rank, s in chosen.items() if s.interface.startswith(VIRTUAL)}
    if not odd:
        return
    first = next(iter(odd.values()))
    yield Hit(
        members=tuple(m.id for m in case.job.members if m.rank in odd),
        ranks=tuple(sorted(odd)),
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=len(odd) < len(chosen),
        evidence=tuple(
            queries.cite(s.source, f"Bootstrap: Using {s.interface}:{s.address}", rank)
            for rank, s in list(odd.items())[:MAX_QUOTES]
        ),
        fields={
            "who": queries.ranks_in_words(odd),
            "interface": first.interface,
            "address": first.address,
        },
    )


def _stuck_in(case: Case, phase: NcclPhase, via: str = "") -> Iterator[Hit]:
    """Yield one hit if all ranks seen stand in one phase; ``via``: the last channels go that way.

    A way is what NCCL prints: "P2P", "SHM", "NET/IB".
    """
    stages = _all_in(case, phase)
    ways = {stage.transport for stage in stages.values()}
    if not stages or not all(way.startswith(via) for way in ways):
        return
    whole = case.job.world_size is None or len(stages) >= case.job.world_size
    yield Hit(
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=False,
        strength=CLEAR if whole else GUESSED,
        evidence=_quotes(stages, tuple(sorted(stages))),
        collective=Collective(op="comm_init"),
        fields={
            "who": queries.ranks_in_words(stages),
            "does": _many(MEANS[phase]),
            "via": ", ".join(sorted({way.partition("/")[0] for way in ways if way})) or "?",
        },
    )


INCOMPLETE = Signature(
    id="nccl-start-incomplete",
    story="""\
NCCL's set-up is through, or begun, on some ranks and not on others.

Each rank prints with NCCL_DEBUG=INFO how far it came: interface, network, Init START, topology,
channels, Init COMPLETE. A rank that never printed Init START has not come to its first
collective; the others wait for it in the bootstrap. One that never printed Init COMPLETE while
the rest did is stuck with its own connections.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="NCCL's set-up is {state} on {count} ranks; {who} {does}",
    when=incomplete,
    means=(
        "The last line of each rank before the silence tells: {others} have the set-up {state}, "
        "{who} {does}."
    ),
    confidence="likely",
    remedies=(
        "Look at {who} first: where does its Python stack stand, what is in its own log?",
        "If it is in the set-up, compare its NCCL_* variables, interface and devices with others'.",
    ),
    next_steps=(
        "whyhang PID  # on the host of {who}",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET on the next run, for all ranks",
    ),
)

BOOTSTRAP = Signature(
    id="nccl-start-bootstrap",
    story="""\
All ranks have begun NCCL's set-up and none gets through its bootstrap.

In the bootstrap every rank connects to rank 0's address over plain TCP, before any fast network
is used. All began (Init START) and nobody saw all the others: the addresses that were chosen
cannot reach each other. The usual reasons are an interface that exists on each host and joins
none of them (docker0, a bridge, a link-local address), IPv6 on some and IPv4 on others, and a
firewall on the ephemeral ports. Gloo may work all the same: it chooses its interface otherwise.
""",
    category="nccl-network-interface",
    level="wait",
    title="All ranks seen began NCCL's set-up and none got through the bootstrap",
    when=lambda case: _stuck_in(case, NcclPhase.BOOTSTRAP),
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
)

VIRTUAL_INTERFACE = Signature(
    id="nccl-start-virtual-interface",
    story="""\
NCCL's ranks try to meet over an interface that only exists within its host.

Without NCCL_SOCKET_IFNAME the first interface that is up is taken, and that may be the bridge of
a container runtime (docker0, cni0, virbr0, veth…). Ranks of other hosts cannot reach such an
address: everyone begins the communicator, and they never meet.

If only some ranks took such an interface, these are named.
""",
    category="nccl-network-interface",
    level="wait",
    title="NCCL tries to meet over {interface} ({address}), which other hosts cannot reach",
    when=over_virtual_interface,
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
)

PEER_TO_PEER = Signature(
    id="nccl-start-peer-to-peer",
    story="""\
All ranks stand in connecting NCCL's channels, and the last ones go from GPU to GPU directly.

"via P2P/IPC" and nothing behind it: the GPUs of one host cannot write into each other's memory.
PCI access control (ACS, an IOMMU, a virtual machine that passes devices through) sends such
traffic astray; nothing fails, it never arrives.
""",
    category="nccl-p2p-or-acs",
    level="wait",
    title="All ranks seen stand in connecting NCCL's channels from GPU to GPU (via {via})",
    when=lambda case: _stuck_in(case, NcclPhase.CONNECTING, via="P2P"),
    means="{who} {does}; the channels that each has named last go via {via}.",
    confidence="possible",
    remedies=(
        "Try NCCL_P2P_DISABLE=1: if the job then runs, peer-to-peer access is what fails.",
        "Turn ACS off on the PCI bridges and the IOMMU to pass-through, or ask who runs the host.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1: it starts if this is it.",
        "sudo lspci -vvv | grep -i acsctl; nvidia-smi topo -p2p r",
    ),
)

SHARED_MEMORY = Signature(
    id="nccl-start-shared-memory",
    story="""\
Ranks went silent while NCCL connected GPUs of one host through shared memory.

The last lines say "via SHM": both ranks map a segment of /dev/shm. It is full, too small (64 MiB
in a container), or not the same for both ranks: two containers with one host name.

With shared memory off the same job starts over the network: that proves it.
""",
    category="shm-too-small",
    level="wait",
    title="NCCL hangs while it connects ranks of one host through /dev/shm",
    when=lambda case: _stuck_in(case, NcclPhase.CONNECTING, via="SHM"),
    means=(
        "The last lines of the ranks tell of connections through shared memory. "
        "They do not come about."
    ),
    confidence="possible",
    remedies=(
        "Give the containers more shared memory, one for all ranks of a host (--ipc=host).",
        "Remove segments of dead jobs: /dev/shm/nccl-*.",
    ),
    next_steps=(
        "Run again with NCCL_SHM_DISABLE=1: it starts if this is it.",
        "df -h /dev/shm; ls -l /dev/shm  # inside the container of each rank",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)

SOCKETS = Signature(
    id="nccl-start-sockets",
    story="""\
Ranks went silent while NCCL connected hosts over sockets.

The last lines say "via NET/Socket": the ranks have met, and their data connections do not come
about. They may use other interfaces than the meeting did, some of which other hosts cannot reach,
or ports that a firewall closes.

With the interface named the same job starts: that proves it.
""",
    category="nccl-network-interface",
    level="wait",
    title="NCCL hangs while it connects hosts over sockets",
    when=lambda case: _stuck_in(case, NcclPhase.CONNECTING, via="NET/Socket"),
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
)

INFINIBAND = Signature(
    id="nccl-start-infiniband",
    story="""\
Ranks went silent while NCCL connected hosts over InfiniBand or RoCE.

The last lines say "via NET/IB": queue pairs are made on both sides. A port that is down, a wrong
GID or VLAN, subnets that do not route, memory that may not be locked or the path from the GPU to
the card (GPUDirect) keep them from coming up.

With InfiniBand off the same job starts over sockets: that proves it.
""",
    category="nccl-ib-error",
    level="wait",
    title="NCCL hangs while it connects hosts over InfiniBand or RoCE",
    when=lambda case: _stuck_in(case, NcclPhase.CONNECTING, via="NET/IB"),
    means=(
        "The last lines of the ranks tell of connections over InfiniBand. They do not come about."
    ),
    confidence="possible",
    remedies=(
        "Bring the port up, or name the cards that work (NCCL_IB_HCA; for RoCE NCCL_IB_GID_INDEX).",
    ),
    next_steps=(
        "Run again with NCCL_IB_DISABLE=1: it starts if InfiniBand is it.",
        "Run again with NCCL_NET_GDR_LEVEL=LOC: it starts if only GPUDirect is it.",
        "ibstat; rdma link; ib_write_bw  # between two of the hosts",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)

NVLS = Signature(
    id="nccl-start-nvls",
    story="""\
Ranks went silent while NCCL set up multicast in the NVSwitches (NVLS).

The last lines speak of NVLS: memory of all GPUs of the host is bound to a multicast group. The
Fabric Manager has to have set the switches up; where it is down, of another version or was
restarted under jobs, the call does not come back.

With NVLS off the same job starts: that proves it.
""",
    category="nvlink-error",
    level="wait",
    title="NCCL hangs while it sets up NVLink multicast (NVLS)",
    when=lambda case: _stuck_in(case, NcclPhase.CONNECTING, via="NVLS"),
    means=(
        "The last lines of the ranks tell of multicast memory in the NVSwitches. It is not bound."
    ),
    confidence="possible",
    remedies=(
        "Restart the Fabric Manager with no job on the host, or reset its GPUs.",
        "Until then run with NCCL_NVLS_ENABLE=0.",
    ),
    next_steps=(
        "Run again with NCCL_NVLS_ENABLE=0: it starts if this is it.",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)

SIGNATURES = (
    INCOMPLETE,
    BOOTSTRAP,
    VIRTUAL_INTERFACE,
    PEER_TO_PEER,
    SHARED_MEMORY,
    SOCKETS,
    INFINIBAND,
    NVLS,
)


def _open_stages(case: Case) -> dict[int, NcclSetup]:
    """Return the furthest that each rank came, where a set-up was open when the logs ended."""
    stages: dict[int, NcclSetup] = {}
    for rank, stage in _setups(case):
        if rank not in stages or stage.phase > stages[rank].phase:
            stages[rank] = stage
    phases = [stage.phase for stage in stages.values()]
    if len(stages) < 2 or case.job.of(SignOfLife):
        return {}
    return {} if min(phases) is NcclPhase.COMPLETE or max(phases) in NOT_BEGUN else stages


def _all_in(case: Case, phase: NcclPhase) -> dict[int, NcclSetup]:
    stages = _open_stages(case)
    return stages if {stage.phase for stage in stages.values()} == {phase} else {}


def _setups(case: Case) -> Iterator[tuple[int, NcclSetup]]:
    for stage in case.job.of(NcclSetup):
        member = case.job.member_of(stage.who)
        rank = member.rank if member is not None else stage.who.rank
        if rank is not None:
            yield rank, stage


def _many(words: str) -> str:
    """Put a phrase for one rank into the plural."""
    for one, many in (("has ", "have "), ("stands ", "stand "), ("its ", "their ")):
        words = words.replace(one, many)
    return words


def _quotes(stages: dict[int, NcclSetup], ranks: tuple[int, ...]) -> tuple[Evidence, ...]:
    return tuple(
        queries.cite(stages[rank].source, stages[rank].text, rank) for rank in ranks[:MAX_QUOTES]
    )
