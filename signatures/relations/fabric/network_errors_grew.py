"""Counters of errors of a network port grew between two prints.

perfquery, ethtool -S, rdma statistic or the files in sysfs were printed twice, and symbol errors,
link downs, discards, retransmissions or sequence errors are higher in one of them. A high number
by itself is history; one that grows is now. Where all hosts have about as many, it is
congestion and no single port.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import ErrorCounter
from whyhang.analyzer.queries import Case, Hit, Signature, cite

MAX_COUNTERS = 3


def when(case: Case) -> Iterator[Hit]:
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


SIGNATURE = Signature(
    id="network-errors-grew",
    category="nccl-ib-error",
    level="machine",
    title="Counters of network errors grew{where}: {grew}",
    when=when,
    means="Packets are lost or damaged{where} while the job runs; its connections stall or break.",
    confidence="likely",
    remedies=("Check cable, transceiver and switch port; on RoCE also MTU, PFC and ECN.",),
    next_steps=("perfquery; rdma statistic; ethtool -S INTERFACE  # again, a minute later",),
)
