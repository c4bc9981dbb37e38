"""Network ports that are down, as tools on hosts print them."""

import re
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import NcclSetup, NetworkPort, Variable, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.cluster import VIRTUAL, ranks_on
from whyhang.analyzer.queries.evidence import members_of
from whyhang.analyzer.report import Evidence, cite

CHOOSING = {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"}
UNUSED = (*VIRTUAL, "lo", "tun", "dummy", "wl")
"""How the names of interfaces begin that no job is meant to use."""

MAX_QUOTES = 6


def ports_down(case: Case, *, rdma: bool) -> Iterator[Hit]:
    """Yield one hit for ports that are down where others alike are up, or that the job uses.

    ``rdma``: ports of InfiniBand and RoCE cards, or else network interfaces.
    """
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
    ranks = ranks_on(case, hosts)
    everyone = {member.rank for member in case.job.members if member.rank is not None}
    first = next(iter(bad.values()))
    up = [port for (_, name), port in now.items() if name == first.name and port.up]
    members, unseen = members_of(case, ranks)
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
