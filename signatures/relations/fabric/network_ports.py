"""Network ports that are down, or whose counters of errors grew, as tools on hosts print them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import ErrorCounter, NcclSetup, NetworkPort, Variable
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, cite, ranks_in_words
from whyhang.analyzer.report import Evidence

CHOOSING = {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"}
UNUSED = (*queries.VIRTUAL, "lo", "tun", "dummy", "wl")
"""How the names of interfaces begin that no job is meant to use."""

MAX_QUOTES = 6
MAX_COUNTERS = 3


def _down(*, rdma: bool) -> Callable[[Case], Iterable[Hit]]:
    """Return a query for ports that are down where others alike are up, or that the job uses."""

    def when(case: Case) -> Iterator[Hit]:
        prints = _prints(case, rdma=rdma)
        now = {key: ports[-1] for key, ports in prints.items()}
        down = {key: port for key, port in now.items() if port.up is False}
        odd = {key: port for key, port in down.items() if _is_odd(key, now)}
        fell = {key: port for key, port in down.items() if any(p.up for p in prints[key])}
        used = {key: port for key, port in down.items() if _is_used(case, port)}
        bad = used | odd | fell
        if not bad:
            return
        hosts = sorted({host for host, _ in bad if host})
        ranks = queries.ranks_on(case, hosts)
        everyone = {member.rank for member in case.job.members if member.rank is not None}
        first = next(iter(bad.values()))
        up = [port for (_, name), port in now.items() if name == first.name and port.up]
        members, unseen = queries.members_of(case, ranks)
        yield Hit(
            members=members,
            ranks=unseen,
            affected=tuple(m.id for m in case.job.members if m.id not in members),
            names_culprit=bool(ranks) and not everyone <= set(ranks),
            strength=CLEAR if used or fell else INCOMPLETE if ranks else GUESSED,
            evidence=tuple(_cite(port) for port in (*bad.values(), *up)[:MAX_QUOTES]),
            fields={
                "ports": ", ".join(dict.fromkeys(port.name for port in bad.values())),
                "where": f" on {', '.join(hosts)}" if hosts else "",
                "state": first.state,
                "who": ranks_in_words(ranks) if ranks else "whoever uses it",
                "others": ", and up on other hosts" if odd and up else "",
            },
        )

    return when


def _prints(case: Case, *, rdma: bool) -> dict[tuple[str | None, str], list[NetworkPort]]:
    """Return what was printed of each port, in order, by host and name."""
    prints: dict[tuple[str | None, str], list[NetworkPort]] = defaultdict(list)
    for port in case.job.of(NetworkPort):
        if port.up is not None and ("/" in port.name) is rdma and not port.name.startswith(UNUSED):
            prints[port.who.host, port.name].append(port)
    return prints


def _is_odd(key: tuple[str | None, str], now: dict[tuple[str | None, str], NetworkPort]) -> bool:
    """Return whether most other hosts have the port of this name up."""
    others = [port.up for (host, name), port in now.items() if name == key[1] and host != key[0]]
    return bool(others) and sum(map(bool, others)) * 2 > len(others)


def _is_used(case: Case, port: NetworkPort) -> bool:
    """Return whether a setting or line of the job's NCCL or gloo names the port."""
    names = {port.name.partition("/")[0], port.netdev or port.name}
    chosen = [fact.value for fact in case.job.of(Variable) if fact.name in CHOOSING]
    chosen += [setup.interface for setup in case.job.of(NcclSetup)]
    words = {word for value in chosen if value[:1] != "^" for word in re.split(r"[,:=]", value)}
    return bool(names & words)


def _cite(port: NetworkPort) -> Evidence:
    where = f"{port.who.host}: " if port.who.host else ""
    return cite(port.source, where + port.quote)


def errors_grew(case: Case) -> Iterator[Hit]:
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
        others = [totals.get(other, 0) for other in _hosts(values) if other != host]
        if others and totals[host] < 10 * max(others):  # about as many everywhere: congestion
            continue
        worst = sorted(rows, key=lambda row: -row[0])[:MAX_COUNTERS]
        ranks = queries.ranks_on(case, (host,))
        members, unseen = queries.members_of(case, ranks)
        yield Hit(
            members=members,
            ranks=unseen,
            affected=tuple(m.id for m in case.job.members if m.id not in members),
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


def _hosts(values: Iterable[tuple[str | None, str | None, str]]) -> set[str | None]:
    return {place for place, _, _ in values}


RDMA_DOWN = Signature(
    id="network-port-down",
    story="""\
A port of an InfiniBand or RoCE card is down.

ibstat, rdma link or ibv_devinfo show it as Down, Polling, Disabled or Initializing, and either the
job is told to use it, it was up in an earlier print, or most other hosts have it up. A port that is
down on every host and that nobody names is not cabled, and is left alone.
""",
    category="nccl-ib-error",
    level="machine",
    title="Port {ports}{where} is {state}{others}",
    when=_down(rdma=True),
    means="Traffic over {ports} does not pass; {who} cannot reach the others over it.",
    confidence="likely",
    remedies=(
        "Check cable, transceiver, switch port and subnet manager; take the host out until then.",
        "Name the ports that work: NCCL_IB_HCA.",
    ),
    next_steps=("ibstat; rdma link; dmesg -T | grep -i 'link'  # on the host",),
)

INTERFACE_DOWN = Signature(
    id="network-interface-down",
    story="""\
A network interface is down or has no carrier.

ip link, ip addr or ethtool show it so, and either the job is told to use it, it was up in an
earlier print, or most other hosts have it up. Bridges and interfaces of containers do not count.
""",
    category="nccl-network-interface",
    level="machine",
    title="Interface {ports}{where} is {state}{others}",
    when=_down(rdma=False),
    means="Traffic over {ports} does not pass; {who} cannot reach the others over it.",
    confidence="likely",
    remedies=(
        "Check cable, transceiver and switch port; take the host out until then.",
        "Name an interface that works: NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME.",
    ),
    next_steps=("ip -br link; ethtool INTERFACE; dmesg -T | grep -i 'link'  # on the host",),
)

ERRORS_GREW = Signature(
    id="network-errors-grew",
    story="""\
Counters of errors of a network port grew between two prints.

perfquery, ethtool -S, rdma statistic or the files in sysfs were printed twice, and symbol errors,
link downs, discards, retransmissions or sequence errors are higher in one of them. A high number
by itself is history; one that grows is now. Where all hosts have about as many, it is
congestion and no single port.
""",
    category="nccl-ib-error",
    level="machine",
    title="Counters of network errors grew{where}: {grew}",
    when=errors_grew,
    means="Packets are lost or damaged{where} while the job runs; its connections stall or break.",
    confidence="likely",
    remedies=("Check cable, transceiver and switch port; on RoCE also MTU, PFC and ECN.",),
    next_steps=("perfquery; rdma statistic; ethtool -S INTERFACE  # again, a minute later",),
)

SIGNATURES = (RDMA_DOWN, INTERFACE_DOWN, ERRORS_GREW)
