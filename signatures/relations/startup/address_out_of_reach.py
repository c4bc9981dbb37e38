"""Ranks are to meet at an address that belongs to the wrong interface of its host.

What picks an address by itself (Ray, a host's name, the first interface that is up) may pick that
of a wireless card, a bridge of containers or a network that the other hosts are not in. The ranks
of other hosts then never reach the store or the bootstrap. The table of interfaces that a host
prints (ip addr, ifconfig, a list) says whose address it is.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import (
    InitArguments,
    LastLine,
    NcclSetup,
    NetworkPort,
    SignOfLife,
    Source,
    Variable,
    grouped,
)
from whyhang.analyzer.queries import Case, Hit, Signature, cite
from whyhang.analyzer.report import Evidence

KINDS = (
    *((name, "a network within the host") for name in queries.VIRTUAL),
    *(("wl", "the wireless card"), ("tun", "a tunnel")),
)
"""What an interface is by the beginning of its name, where other hosts may not reach it."""

ASIDE = ("lo", *(name for name, _ in KINDS))
"""How the names of interfaces begin that a job is not meant to use."""

_IP = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the first address in use that other hosts cannot reach."""
    rows = (row for row in case.job.of(NetworkPort) if row.addresses and row.name)
    tables = grouped(rows, lambda row: (row.who.host, row.source.file))
    if case.job.of(SignOfLife):
        return
    for address, source, quote in _used(case):
        for (host, _), ports in tables.items():
            port = next(
                (p for p in ports if address in {a.partition("/")[0] for a in p.addresses}), None
            )
            if port is None:
                continue
            kind = next((words for name, words in KINDS if port.name.startswith(name)), "")
            others = [one for one in ports if one is not port and not one.name.startswith(ASIDE)]
            why = kind if kind and others else _separate_networks(port, ports, tables, host)
            if why:
                yield _hit(case, address, port, others, why, cite(source, quote))
                return


def _used(case: Case) -> Iterator[tuple[str, Source, str]]:
    """Yield the addresses at which ranks are to meet, or that their lines name."""
    for setup in case.job.of(NcclSetup):
        if setup.address:
            yield setup.address, setup.source, f"NCCL's bootstrap uses {setup.address}"
    for fact in case.job.of(Variable):
        if fact.name == "MASTER_ADDR":
            yield fact.value, fact.source, f"MASTER_ADDR={fact.value}"
    for given in case.job.of(InitArguments):
        if given.address is not None:
            yield given.address.host, given.source, f"to meet at {given.address.host}"
    texts = [(line.text, line.source) for line in case.job.lines]
    texts += [(end.text, end.source) for end in case.job.of(LastLine)]
    for text, source in texts:
        for match in _IP.finditer(text):
            yield match[0], source, text


def _separate_networks(
    port: NetworkPort,
    ports: list[NetworkPort],
    tables: dict[tuple[str | None, str], list[NetworkPort]],
    host: str | None,
) -> str:
    """Say that no other host is in this network, where they share another one."""
    here, of_host, *there = (
        {net for p in own if not p.name.startswith(ASIDE) for net in queries.networks_of(p)}
        for own in ([port], ports, *(own for (other, _), own in tables.items() if other != host))
    )
    apart = here and there and all(of_host & its and not here & its for its in there)
    return "a network in which no other host is" if apart else ""


def _hit(
    case: Case, address: str, port: NetworkPort, others: list[NetworkPort], why: str, used: Evidence
) -> Hit:
    offered = [f"{p.name} {p.addresses[0].partition('/')[0]}" for p in others if p.addresses]
    return Hit(  # the ranks that did not come are named by what follows from it
        affected=tuple(member.id for member in case.job.members),
        evidence=(used, cite(port.source, port.quote)),
        fields={
            "address": address,
            "name": port.name,
            "where": f" on {port.who.host}" if port.who.host else "",
            "why": why,
            "others": ", ".join(offered[:4]) or "another interface",
        },
    )


SIGNATURE = Signature(
    id="address-out-of-reach",
    category="init-master-unreachable",
    level="setup",
    title="{address}, where ranks are to meet, is the address of {name}{where}: {why}",
    when=when,
    means="Other hosts cannot reach {address}. The host also has {others}.",
    confidence="likely",
    remedies=(
        "Name the right address: MASTER_ADDR, ray start --node-ip-address, VLLM_HOST_IP.",
        "Name the right interface: NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME.",
    ),
    next_steps=("nc -zv {address} PORT  # from another host",),
)
