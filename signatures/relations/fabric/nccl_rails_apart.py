"""NCCL connects GPUs of different rails, and the rails are networks of their own.

Each card is in a network of its own (a rail). A ring that goes from a GPU of one rail to one of
another needs a route between them. Where there is none, nobody is absent, and the first operation
hangs. NCCL_CROSS_NIC=0 keeps rings to one rail only where NCCL sees the hosts as they are.
"""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NetChannel, NetworkPort, SignOfLife, Variable
from whyhang.analyzer.queries import Case, Hit, Signature, cite


def when(case: Case) -> Iterator[Hit]:
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


SIGNATURE = Signature(
    id="nccl-rails-apart",
    category="nccl-ib-error",
    level="setup",
    title="NCCL connects {edge} across rails, which are separate networks ({rails})",
    when=when,
    means="The connection via {via} leads from one rail to another; do routes join them?",
    confidence="possible",
    remedies=(
        "Route between the rails, or keep to one: NCCL_CROSS_NIC=0, NCCL_IB_HCA of one rail.",
        "Compare nNodes and localRanks in NCCL's lines with the hosts there are.",
    ),
    next_steps=("ip route get ADDRESS_OF_THE_OTHER_RAIL  # does a route join them?",),
)
