"""What tables of networks show: ports that are down, errors that grow, rails no route joins."""

import contextlib
import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    ErrorCounter,
    NcclSetup,
    NetChannel,
    NetworkPort,
    SignOfLife,
    Variable,
    grouped,
    ranks_in_words,
    replace,
    same_host,
)
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.job.sockets import tcp_sockets
from whyhang.analyzer.queries.hits import others_than
from whyhang.analyzer.queries.machines.cluster import ranks_on
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.waits.all_wait import all_in_one_call
from whyhang.analyzer.report import cite

VIRTUAL = ("docker", "veth", "virbr", "cni", "br-", "flannel", "cali", "lxc", "podman")
"""How the names of interfaces begin that other hosts cannot reach."""


def networks_of(port: NetworkPort) -> tuple[str, ...]:
    """Return the networks that a port is in, of addresses that are printed with their prefix."""
    networks: list[str] = []
    for address in port.addresses:
        with contextlib.suppress(ValueError):  # digits that are no address
            network = ipaddress.ip_interface(address).network
            networks += [str(network)] if network.num_addresses > 1 else []
    return tuple(networks)


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
    values = grouped(
        case.job.of(ErrorCounter),
        # Without host and port, prints in different files may be of different things.
        lambda fact: (fact.who.host or fact.port or fact.source.file, fact.port, fact.name),
    )
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


CHOOSING = {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"}
UNUSED = (*VIRTUAL, "lo", "tun", "dummy", "wl")
"""How the names of interfaces begin that no job is meant to use."""

MAX_PORTS = 6


@query
def ports_down(case: Case, *, rdma: bool) -> Iterator[Hit]:
    """Yield one hit for ports that are down where others alike are up, or that the job uses.

    So are those that are up in one print and down in another.

    ``rdma``: ports of InfiniBand and RoCE cards, or else network interfaces.
    """
    shown = (
        port
        for port in case.job.of(NetworkPort)
        if port.up is not None and ("/" in port.name) is rdma and not port.name.startswith(UNUSED)
    )
    prints = grouped(shown, lambda port: (port.who.host, port.name))
    now = {key: ports[-1] for key, ports in prints.items()}
    down = {key: port for key, port in now.items() if port.up is False}
    odd = {key: port for key, port in down.items() if _is_odd(key, now)}
    fell = {
        key: next(port for port in ports if port.up is False)
        for key, ports in prints.items()
        if {True, False} <= {port.up for port in ports}
    }
    used = {key: port for key, port in down.items() if _is_used(case, port)}
    bad = used | odd | fell
    if not bad:
        return
    hosts = sorted({host for host, _ in bad if host})
    ranks = ranks_on(case, hosts)
    everyone = {member.rank for member in case.job.members if member.rank is not None}
    first = next(iter(bad.values()))
    up = [port for (_, name), port in now.items() if name == first.name and port.up]
    yield Hit(
        ranks=ranks,
        affected=others_than(case, ranks),
        names_culprit=bool(ranks) and not everyone <= set(ranks),
        strength=CLEAR if used or fell else INCOMPLETE if ranks else GUESSED,
        evidence=tuple(
            cite(port.source, (f"{port.who.host}: " if port.who.host else "") + port.quote)
            for port in (*bad.values(), *up)[:MAX_PORTS]
        ),
        fields={
            "ports": ", ".join(dict.fromkeys(port.name for port in bad.values())),
            "where": f" on {', '.join(hosts)}" if hosts else "",
            "state": first.state,
            "who": ranks_in_words(ranks) if ranks else "whoever uses it",
            "others": ", and up on other hosts" if odd and up else "",
        },
    )


def _is_odd(key: tuple[str | None, str], now: dict[tuple[str | None, str], NetworkPort]) -> bool:
    """Return whether most other hosts have the port of this name up."""
    others = [port.up for (host, name), port in now.items() if name == key[1] and host != key[0]]
    return bool(others) and sum(map(bool, others)) * 2 > len(others)


def _is_used(case: Case, port: NetworkPort) -> bool:
    """Return whether the job is told to use the port, or has connections at its address."""
    if port.addresses and any(
        (port.who.host is None or same_host(member.host, port.who.host))
        and socket.peer is not None
        and socket.own.host == address.partition("/")[0]
        for member in case.job.members
        for process in member.processes[-1:]
        for socket in tcp_sockets(process)
        for address in port.addresses
    ):
        return True
    names = {port.name.partition("/")[0], port.netdev or port.name}
    chosen = [fact.value for fact in case.job.of(Variable) if fact.name in CHOOSING]
    chosen += [setup.interface for setup in case.job.of(NcclSetup)]
    words = {word for value in chosen if value[:1] != "^" for word in re.split(r"[,:=]", value)}
    return bool(names & words)
