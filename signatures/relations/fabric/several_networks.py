"""All ranks stand in one operation, nobody is absent, and the hosts have several networks.

What joins the ranks chooses an interface for itself, or stripes over all of them, and on some of
these networks the hosts may not reach each other. Small messages and the meeting itself may have
gone over another one. A table of the hosts' interfaces shows that there are several, and no setting
says which to use.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NetworkPort, Variable, replace
from whyhang.analyzer.queries import Case, Hit, Signature, cite

CHOSEN = ("IFNAME", "btl_tcp_if", "BTL_TCP_IF", "NCCL_IB_HCA", "UCX_NET_DEVICES")


def when(case: Case) -> Iterator[Hit]:
    """Yield the operation in which all ranks stand, where several networks are known."""
    networks: dict[str, NetworkPort] = {}
    for port in case.job.of(NetworkPort):
        if port.up is not False and not port.name.startswith((*queries.VIRTUAL, "lo", "wl")):
            for network in queries.networks_of(port):
                if ":" not in network:
                    networks.setdefault(network, port)
    if len(networks) < 2 or any(w in f.name for f in case.job.of(Variable) for w in CHOSEN):
        return
    for hit in queries.all_in_one_call(case):
        rows = tuple(cite(port.source, port.quote) for port in networks.values())[:4]
        fields = {**hit.fields, "networks": ", ".join(list(networks)[:4])}
        yield replace(hit, evidence=(*hit.evidence, *rows), fields=fields)


SIGNATURE = Signature(
    id="several-networks",
    category="nccl-network-interface",
    level="peer",
    title="All ranks stand in {call}, and the hosts have several networks ({networks})",
    when=when,
    means="{says}. Nobody is absent, so look at the path: some of the networks may join no hosts.",
    confidence="possible",
    remedies=(
        "Name the network that joins the hosts: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.",
        "With Open MPI: mpirun --mca btl_tcp_if_include NETWORK.",
    ),
    next_steps=("ip -br addr; ping ADDRESS  # of each network, from host to host",),
)
