"""A host on which ranks of the job ran does not answer any more.

Somebody has looked: ssh finds no route to it or gets no answer, ping loses all, a tool for many
hosts leaves it out. The ranks there wrote nothing about it, and the others lose their connections
or wait for them. A host that refuses a login, or on which nothing of the job ran, is no such host.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import CLEAR, GUESSED, Case, Hit, Signature, cite

SILENT = (
    (
        r"ssh: connect to host (?P<node>[\w.-]+) port \d+: "
        r"(?:No route to host|Connection timed out|Host is down|Network is unreachable)"
    ),
    r"^PING (?P<node>[\w.-]+) .{0,80}(?:100% packet loss|Host Unreachable)",
    r"^(?P<node>[\w.-]+): (?:mcmd|pdsh|clush).{0,40}(?:timed? ?out|No route to host)",
    (
        r"(?:host|node) (?P<node>[\w.-]+) "
        r"(?:is (?:down|unreachable|not reachable)|does not (?:answer|respond))"
    ),
)


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that ran on hosts which do not answer, if others remain.

    Of hosts that whyhang itself could not reach it is more than likely only where connections of
    the other ranks to them get no answer either: between ssh and a host there may be a firewall.
    """
    lines = case.job.lines_with(SILENT)
    nodes = list(dict.fromkeys(line.fields["node"] for line in lines if "node" in line.fields))
    ranks = queries.ranks_on(case, nodes)
    ranked = (m for m in case.job.members if m.rank is not None)
    others = tuple(m.id for m in ranked if m.rank not in ranks)
    if ranks and others and not case.graph.progress:
        yield Hit(
            ranks=ranks,
            affected=others,
            evidence=queries.cite_lines(lines[:4]),
            fields={"node": ", ".join(nodes), "who": queries.ranks_in_words(ranks), "also": ""},
        )
    elif not lines:
        yield from _not_reached(case)


def _not_reached(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks on hosts that whyhang could not reach, if all wait for them."""
    silent = queries.silent_hosts(case)
    ranks = queries.ranks_on_silent(case, silent)
    waiting = queries.waiters_for(case)
    held = [n for n in case.graph.not_waiting if case.member(n).rank not in ranks]
    if not silent or not ranks or not waiting or held or case.graph.progress:
        return
    cut = [
        c
        for c in case.connections.unanswered()
        if any(queries.leads_to(case, c, h) for h in silent)
    ]
    yield Hit(
        ranks=ranks,
        affected=waiting,
        evidence=(
            *(cite(fact.source, f"{host}: {fact.why}") for host, fact in silent.items()),
            *queries.cite_unanswered(case, cut[:4]),
            *queries.places_of(case, *waiting[:1]),
        ),
        strength=CLEAR if cut else GUESSED,
        fields={
            "node": ", ".join(silent),
            "who": queries.ranks_in_words(ranks),
            "also": f" Nor does what {case.names(dict.fromkeys(c.member for c in cut))} "
            "sent there get an answer."
            if cut
            else " Whether the other ranks reach it, nothing shows.",
        },
    )


SIGNATURE = Signature(
    id="host-does-not-answer",
    category="rank-died",
    level="machine",
    title="Host {node} does not answer, on which {who} ran",
    when=when,
    means=(
        "Nobody reaches {node} any more. What ran there ({who}) is gone or cut off; the others can "
        "only wait for it, or lose their connections.{also}"
    ),
    confidence="strong",
    patterns=SILENT,
    remedies=(
        "Look at {node} from outside: its console or BMC, power, the port of its switch.",
        "Exclude {node} and resume from the last checkpoint.",
    ),
    next_steps=("ipmitool -H {node}-bmc chassis status; ipmitool -H {node}-bmc sel list",),
    matches=(
        "ssh: connect to host gpu-a7 port 22: No route to host",
        "PING gpu-a7 (10.0.0.7): 4 packets transmitted, 0 received, 100% packet loss",
        "gpu-a7: mcmd: connect failed: No route to host",
        "the node gpu-a7 does not respond since 02:10",
    ),
    misses=(
        "ssh: connect to host gpu-a7 port 22: Connection refused",
        "64 bytes from gpu-a7 (10.0.0.7): icmp_seq=1 ttl=64 time=0.1 ms",
    ),
)
