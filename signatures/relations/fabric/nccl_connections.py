"""Everybody came, and NCCL's connections between some ranks were never made: it is the path.

With NCCL_DEBUG=INFO both ends of a connection over the network print it, and each rank prints
"Connected all rings" once its own are made.
"""

from collections.abc import Callable, Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NcclPhase, NetChannel, NetworkPort, SignOfLife, Variable
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature, cite, ranks_in_words
from whyhang.analyzer.report import Collective

Edge = tuple[int, int]
"""Who sends, who receives."""

MAX_QUOTES = 6
MAX_EDGES = 4


def _not_made(*, sockets: bool) -> Callable[[Case], Iterable[Hit]]:
    """Return a query for connections over sockets, or over InfiniBand and plugins."""

    def when(case: Case) -> Iterator[Hit]:
        stages = queries.open_setups(case)
        connecting = {r for r, stage in stages.items() if stage.phase is NcclPhase.CONNECTING}
        done = {r for r, stage in stages.items() if stage.phase > NcclPhase.CONNECTING}
        ends = _ends(case)
        if not connecting:
            return
        half = _half_made(ends, set(stages))  # else both ends are there, and did not meet
        between = {e: [end for end in both if end] for e, both in ends.items()}
        open_ = [e for e in between if connecting.issuperset(e) and done]
        edges = half or open_
        ways = {end.via for edge in edges for end in between[edge]}
        if not edges or any(way.startswith("NET/Socket") is not sockets for way in ways):
            return
        hosts = {rank: case.job.members[case.job.by_rank[rank]].host for rank in stages}
        yield Hit(
            affected=tuple(m.id for m in case.job.members if m.rank in stages),
            names_culprit=False,
            strength=CLEAR if half else INDIRECT,
            evidence=(
                *(
                    cite(end.source, end.text, rank)
                    for edge in edges
                    for rank, end in zip(edge, ends[edge], strict=True)
                    if end is not None
                ),
                *queries.cite_setups(stages, sorted(done)[:2]),
            )[:MAX_QUOTES],
            collective=Collective(op="comm_init"),
            fields={
                "edges": ", ".join(_named(edge, hosts) for edge in edges[:MAX_EDGES])
                + (f" and {len(edges) - MAX_EDGES} more" if len(edges) > MAX_EDGES else ""),
                "via": ", ".join(sorted(ways)),
                "done": f"; {ranks_in_words(done)} connected theirs" if done else "",
                "how": "only one of the two ends has set it up"
                if half
                else "both ends have not connected, while others have",
            },
        )

    return when


def _ends(case: Case) -> dict[Edge, tuple[NetChannel | None, NetChannel | None]]:
    """Return the two ends of each connection, as far as each is printed by its own rank."""
    ends: dict[Edge, tuple[NetChannel | None, NetChannel | None]] = {}
    for channel in case.job.of(NetChannel):
        member = case.job.member_of(channel.who)
        edge = (channel.sender, channel.receiver)
        # In another communicator than that of all ranks the numbers are not the ranks.
        if member is None or member.rank != edge[not channel.sends]:
            continue
        sender, receiver = ends.get(edge, (None, None))
        ends[edge] = (channel, receiver) if channel.sends else (sender, channel)
    return ends


def _half_made(
    ends: dict[Edge, tuple[NetChannel | None, NetChannel | None]], seen: set[int]
) -> list[Edge]:
    """Return the connections of which one end is missing, though both ranks' lines were read."""
    return [edge for edge, both in ends.items() if None in both and seen.issuperset(edge)]


def _named(edge: Edge, hosts: dict[int, str | None]) -> str:
    places = [f" ({hosts[rank]})" if hosts.get(rank) else "" for rank in edge]
    return f"rank {edge[0]}{places[0]} to rank {edge[1]}{places[1]}"


def separate_rails(case: Case) -> Iterator[Hit]:
    """Yield one hit for connections between GPUs of different rails that no route joins."""
    rails = [port for port in case.job.of(NetworkPort) if port.netdev and queries.networks_of(port)]
    crossing = [c for c in case.job.of(NetChannel) if c.devices[0] != c.devices[1]]
    along = [c for c in case.job.of(NetChannel) if c.devices[0] == c.devices[1]]
    ports = {port.name: port for port in rails}
    chosen = _chosen(case, ports)
    networks = {queries.networks_of(ports[name]) for name in chosen}
    if len(networks) < 2 or not crossing or along or case.job.of(SignOfLife):
        return
    first = crossing[0]
    cross_nic = next(
        (fact for fact in case.job.of(Variable) if fact.name == "NCCL_CROSS_NIC"), None
    )
    yield Hit(
        affected=tuple(member.id for member in case.job.members),
        names_culprit=False,
        evidence=(
            *(cite(c.source, c.text) for c in crossing[:2]),
            *(cite(ports[name].source, ports[name].quote) for name in chosen[:2]),
            *([cite(cross_nic.source, f"NCCL_CROSS_NIC={cross_nic.value}")] if cross_nic else []),
        ),
        fields={
            "edge": f"rank {first.sender} (GPU {first.devices[0]}) to rank {first.receiver} "
            f"(GPU {first.devices[1]})",
            "via": first.via,
            "rails": ", ".join(f"{name} {ports[name].addresses[0]}" for name in chosen),
        },
    )


def _chosen(case: Case, ports: Iterable[str]) -> list[str]:
    """Return the cards that NCCL is told to use; all of them where nothing says which."""
    hca = next((fact for fact in case.job.of(Variable) if fact.name == "NCCL_IB_HCA"), None)
    named = [word.partition(":")[0] for word in hca.value.strip("=").split(",")] if hca else []
    return [name for name in ports if not named or name in named]


_MEANS = "Nobody is absent: {how}. Look at the path between these hosts, not at the program."
_LATER = ("whyhang LOGS  # with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH of every rank",)

OVER_FABRIC = Signature(
    id="nccl-connections-not-made",
    story="""\
All ranks came, and NCCL's connections over InfiniBand or a plugin were not made between some.

Who printed "Connected all rings" has its own connections; who did not lacks one. A connection of
which only one end is printed was begun there and never reached the other. Together they say between
which hosts and over which card the path is broken: a port, a switch, a GID, a route.
""",
    category="nccl-ib-error",
    level="peer",
    title="NCCL's connection from {edges} via {via} was never made{done}",
    when=_not_made(sockets=False),
    means=_MEANS,
    confidence="likely",
    remedies=(
        "Test this pair of hosts over this card (ib_write_bw), and take the bad one out.",
        "Name the cards that work: NCCL_IB_HCA; for RoCE check NCCL_IB_GID_INDEX and the routes.",
    ),
    next_steps=("ibstat; rdma link; show_gids  # on both hosts", *_LATER),
)

OVER_SOCKETS = Signature(
    id="nccl-connections-over-sockets-not-made",
    story="""\
All ranks came, and NCCL's socket connections were not made between some of them.

Who printed "Connected all rings" has its own connections; who did not lacks one. The data
connections may use another interface than the bootstrap did, and between these hosts it leads
nowhere: a firewall, a network that only some hosts are in, an interface of containers.
""",
    category="nccl-network-interface",
    level="peer",
    title="NCCL's connection from {edges} via {via} was never made{done}",
    when=_not_made(sockets=True),
    means=_MEANS,
    confidence="likely",
    remedies=(
        "Give NCCL the one interface that all hosts share: NCCL_SOCKET_IFNAME.",
        "Open all ports above 1024 between these hosts.",
    ),
    next_steps=("nc -zv ADDRESS PORT  # from one host to the other", *_LATER),
)

SEPARATE_RAILS = Signature(
    id="nccl-rails-apart",
    story="""\
NCCL connects GPUs of different rails, and the rails are networks of their own.

Each card is in a network of its own (a rail). A ring that goes from a GPU of one rail to one of
another needs a route between them. Where there is none, nobody is absent, and the first operation
hangs. NCCL_CROSS_NIC=0 keeps rings to one rail only where NCCL sees the hosts as they are.
""",
    category="nccl-ib-error",
    level="setup",
    title="NCCL connects {edge} across rails, which are separate networks ({rails})",
    when=separate_rails,
    means="The connection via {via} leads from one rail to another; do routes join them?",
    confidence="possible",
    remedies=(
        "Route between the rails, or keep to one: NCCL_CROSS_NIC=0, NCCL_IB_HCA of one rail.",
        "Compare nNodes and localRanks in NCCL's lines with the hosts there are.",
    ),
    next_steps=("ip route get ADDRESS_OF_THE_OTHER_RAIL  # does a route join them?",),
)

SIGNATURES = (OVER_FABRIC, OVER_SOCKETS, SEPARATE_RAILS)
