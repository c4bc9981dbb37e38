"""Ranks that start do not reach the store at the place they were given."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.job.sockets import tcp_sockets
from whyhang.analyzer.queries import Case, Hit, Signature, StartingRank, Status
from whyhang.analyzer.report import Evidence

NAME_UNKNOWN = Signature(
    id="init-master-name-unknown",
    story="""\
The name of the master has no address on the host of a rank.

Misspelt, a short name without its search domain, a pod's name before its service exists, an entry
that is missing in /etc/hosts, or DNS that is down. torch asks again and again until its timeout.
""",
    category="init-hostname-resolution",
    level="setup",
    title="The master's name {host} has no address for {who}{why}",
    when=lambda case: _cut_off(case, "unresolved", "unanswered"),
    means=(
        "{who} {is} told to meet at {address}, and that name cannot be resolved there{why}"
        "{elsewhere}. init_process_group asks again until its timeout."
    ),
    confidence="certain",
    remedies=(
        "Use an address, or a name that every host resolves.",
        "In Kubernetes, create the headless service first, and set publishNotReadyAddresses.",
    ),
    next_steps=(
        "getent ahosts {host}  # on every host, inside the container",
        "cat /etc/hosts /etc/resolv.conf  # on the host of {who}",
    ),
)

NO_ANSWER = Signature(
    id="init-master-no-answer",
    story="""\
What a rank sends to the master's address vanishes, or no way leads there.

A firewall or security group that drops packets, an address of no host, an interface that the
others cannot reach, a host that is down. The sockets of the rank stand in SYN-SENT.
""",
    category="init-master-unreachable",
    level="setup",
    title="{who} {gets} no answer from {address}{as}, where the store should be{why}",
    when=lambda case: _cut_off(case, "unreachable"),
    means=(
        "{who} {is} told to meet at {address}{as}, and nothing comes back from there{why}"
        "{elsewhere}. A firewall drops the packets, no host has that address, or the way to it is "
        "closed."
    ),
    confidence="strong",
    remedies=(
        (
            "Open port {port} of the master's host for every host of the job (firewall, security "
            "group, network policy)."
        ),
        (
            "If the address is not the master's, or of an interface that the others do not reach, "
            "correct MASTER_ADDR."
        ),
    ),
    next_steps=(
        "nc -zv -w 3 {host} {port}  # on the host of {who}",
        "ip route get {resolved}  # on the host of {who}: by which interface?",
        "iptables -S; nft list ruleset  # as root, on both hosts",
    ),
)

REFUSES = Signature(
    id="init-master-refuses",
    story="""\
Nobody listens where a rank was told that the store is.

A wrong address, a wrong or closed port, a firewall that rejects, or an address that leads every
host to itself (docker0 has the same one everywhere). That rank 0 is merely late is told apart
where rank 0 can be seen.
""",
    category="init-master-unreachable",
    level="setup",
    title="Nobody listens for {who} at {address}{as}, where the store should be",
    when=lambda case: _cut_off(case, "refused"),
    means=(
        "{who} {is} told to meet at {address}{as}, and the connection is refused{own}{elsewhere}. "
        "Nothing listens there (a wrong address or port, or rank 0 runs elsewhere or not yet), or "
        "a firewall rejects it."
    ),
    confidence="strong",
    remedies=(
        (
            "Let MASTER_ADDR be an address of rank 0's host that every other host reaches, and "
            "MASTER_PORT the port that rank 0 listens on."
        ),
        "Open that port between the hosts.",
    ),
    next_steps=(
        "ss -ltnp | grep :{port}  # on the host of rank 0: on which address does it listen?",
        "nc -zv {host} {port}  # on the host of {who}",
        "ip -br address  # on both: which of them has {resolved}?",
    ),
)

SIGNATURES = (NAME_UNKNOWN, NO_ANSWER, REFUSES)


def _cut_off(case: Case, *outcomes: str) -> Iterator[Hit]:
    """Yield one hit for ranks that start and do not reach the store at the place they were given.

    ``outcomes`` are those of ``StoreView`` that count. Where others do reach theirs, those that
    do not are blamed; else nobody is. A store that is not there yet because its rank is lagging is
    no such case.
    """
    here = queries.starting_ranks(case)
    away = [at for at in here if at.view is not None and at.view.outcome in outcomes]
    there = [at for at in here if at.view is not None and at.view.outcome in queries.OPEN]
    if not away or case.graph.progress or (not there and _rank_0_is_lagging(case)):
        return
    views = queries.distinct_views(at.view for at in away)
    elsewhere = {at.view.host for at in there if at.view is not None}
    few = len(away) < len(here) - len(away) or len(views) == 1
    strength = 1.0 if there or queries.state_of_rank_0(case) is not None else INCOMPLETE
    fields = queries.subject_fields(
        case, queries.states_of(case, away), tuple(at.member for at in there)
    )
    fields |= queries.view_fields(views[0])
    fields["elsewhere"] = (
        f"; {case.names(at.member for at in there)} reach{'es' if len(there) == 1 else ''} "
        f"a store at {', '.join(sorted(elsewhere))}"
        if there
        else ""
    )
    yield Hit(
        members=tuple(at.member for at in away),
        affected=tuple(at.member for at in there),
        evidence=(
            *(queries.cite_view(view) for view in views[:3]),
            *_attempts(case, away),
            *(
                queries.cite_view(view)
                for view in queries.distinct_views(at.view for at in there)[:1]
            ),
            *queries.evidence_of(case, case.states[away[0].member])[:1],
        ),
        strength=strength,
        names_culprit=bool(there) and few,
        location=queries.location_of(case, case.states[away[0].member]),
        fields=fields,
    )


def _rank_0_is_lagging(case: Case) -> bool:
    """Return whether rank 0 lives and has not come to its start-up: then no store can be there."""
    number = case.job.by_rank.get(0)
    if number is None or queries.state_of_rank_0(case) is not None:
        return False
    return case.states[number].status is not Status.GONE


def _attempts(case: Case, away: Sequence[StartingRank]) -> list[Evidence]:
    """Return the sockets of ranks that try to connect in vain, the first look of each."""
    evidence = []
    for at in away[:3]:
        member = case.member(at.member)
        for process in member.processes:
            lines = [str(s) for s in tcp_sockets(process) if s.state == "syn-sent"]
            if lines:
                words = f"pid {member.pid}: {'; '.join(lines[:2])}"
                evidence.append(queries.cite(process.source, words, member.rank))
                break
    return evidence
