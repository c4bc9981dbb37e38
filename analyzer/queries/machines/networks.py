"""What tables of networks show: several, errors that grow, rails that no route joins."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    ErrorCounter,
    NetChannel,
    NetworkPort,
    SignOfLife,
    Variable,
    replace,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import others_than
from whyhang.analyzer.queries.machines.cluster import VIRTUAL, networks_of, ranks_on
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.all_wait import all_in_one_call
from whyhang.analyzer.report import cite

_CHOSEN = ("IFNAME", "btl_tcp_if", "BTL_TCP_IF", "NCCL_IB_HCA", "UCX_NET_DEVICES")


@side("networks_show", what="several")
def _several(case: Case) -> Iterator[Hit]:
    """Yield the operation in which all ranks stand, where several networks are known."""
    networks: dict[str, NetworkPort] = {}
    for port in case.job.of(NetworkPort):
        if port.up is not False and not port.name.startswith((*VIRTUAL, "lo", "wl")):
            for network in networks_of(port):
                if ":" not in network:
                    networks.setdefault(network, port)
    if len(networks) < 2 or any(w in f.name for f in case.job.of(Variable) for w in _CHOSEN):
        return
    for hit in all_in_one_call(case):
        rows = tuple(cite(port.source, port.quote) for port in networks.values())[:4]
        fields = {**hit.fields, "networks": ", ".join(list(networks)[:4])}
        yield replace(hit, evidence=(*hit.evidence, *rows), fields=fields)


_MAX_COUNTERS = 3


@side("networks_show", what="errors-grew")
def _errors_grew(case: Case) -> Iterator[Hit]:
    """Yield one hit for each host on which counters of errors are higher in a later print."""
    values: dict[tuple[str | None, str | None, str], list[ErrorCounter]] = defaultdict(list)
    for fact in case.job.of(ErrorCounter):
        # Without host and port, prints in different files may be of different things.
        place = fact.who.host or fact.port or fact.source.file
        values[place, fact.port, fact.name].append(fact)
    grown: dict[str | None, list[tuple[int, ErrorCounter, ErrorCounter]]] = defaultdict(list)
    for prints in values.values():
        low, high = min(prints, key=lambda f: f.value), max(prints, key=lambda f: f.value)
        if high.value > low.value:
            grown[high.who.host].append((high.value - low.value, low, high))
    totals = {host: sum(by for by, _, _ in rows) for host, rows in grown.items()}
    for host, rows in grown.items():
        others = [totals.get(other, 0) for other in {place for place, *_ in values} - {host}]
        if others and totals[host] < 10 * max(others):  # about as many everywhere: congestion
            continue
        worst = sorted(rows, key=lambda row: -row[0])[:_MAX_COUNTERS]
        ranks = ranks_on(case, (host,))
        yield Hit(
            ranks=ranks,
            affected=others_than(case, ranks),
            names_culprit=bool(ranks and others),
            evidence=tuple(
                cite(fact.source, f"{fact.name}: {fact.value}")
                for _, low, high in worst
                for fact in (low, high)
            ),
            fields={
                "where": f" on {host}" if host else "",
                "grew": ", ".join(
                    f"{high.name}{f' of {high.port}' if high.port else ''} from {low.value:,} to "
                    f"{high.value:,}"
                    for _, low, high in worst
                ),
            },
        )


@side("networks_show", what="rails-apart")
def _rails_not_joined(case: Case) -> Iterator[Hit]:
    """Yield one hit for connections between GPUs of different rails that no route joins."""
    rails = [port for port in case.job.of(NetworkPort) if port.netdev and networks_of(port)]
    crossing = [c for c in case.job.of(NetChannel) if c.devices[0] != c.devices[1]]
    along = [c for c in case.job.of(NetChannel) if c.devices[0] == c.devices[1]]
    ports = {port.name: port for port in rails}
    chosen = _chosen(case, ports)
    networks = {networks_of(ports[name]) for name in chosen}
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
