"""The name of the master leads to different hosts for different ranks."""

import ipaddress
from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, StartingRank

DIFFERS = Signature(
    id="init-master-name-differs",
    story="""\
One name of the master leads to different addresses on different hosts.

An old line in /etc/hosts, two networks with their own DNS, a name that was moved. The ranks whose
hosts find the wrong one never reach the store.
""",
    category="init-hostname-resolution",
    level="setup",
    title="The name {host} is {resolved} for {who}, and {usual} for {others}",
    when=lambda case: _resolves_differently(case, loopback=False),
    means=(
        "{who} {is} told the same name, {host}, and {gets} another address for it ({resolved}), "
        "where {says}; {others} find the store at {usual}."
    ),
    confidence="certain",
    remedies=(
        "Correct /etc/hosts or DNS on the host of {who}, or give an address as MASTER_ADDR.",
    ),
    next_steps=("getent ahosts {host}  # on every host, inside the container",),
)

IS_LOOPBACK = Signature(
    id="init-master-is-loopback",
    story="""\
The master's name or address is a loopback address, so that every host finds itself there.

Debian and Ubuntu give the host's own name 127.0.1.1 in /etc/hosts. ``MASTER_ADDR=$(hostname -i)``
then is 127.0.1.1 everywhere: right on the master, and on every other host a place where nobody
listens. ``localhost`` for a job on several hosts is the same mistake.
""",
    category="init-hostname-resolution",
    level="setup",
    title="{host}{as}, where the store should be, is every host itself, and {who} {is} on another",
    when=lambda case: _resolves_differently(case, loopback=True),
    means=(
        "MASTER_ADDR is {host}{as}, which means the own host to whoever asks. On the host of "
        "{who}, which is not that of rank 0, no store is there: {says}."
    ),
    confidence="certain",
    remedies=(
        (
            "Give an address of rank 0's host that the others reach: MASTER_ADDR=$(hostname -I | "
            "awk '{{print $1}}'), or its name where /etc/hosts does not turn that into 127.0.1.1."
        ),
    ),
    next_steps=("getent ahosts {host}  # on the host of rank 0 and of {who}",),
    # says how the names differ
    explains=("init-master-name-differs",),
)

SIGNATURES = (DIFFERS, IS_LOOPBACK)


def _resolves_differently(case: Case, *, loopback: bool) -> Iterator[Hit]:
    """Yield one hit for ranks that find something else under the name than those that get through.

    ``loopback``: the address is the loopback of each rank's own host instead, so that every host
    finds itself there.
    """
    here = [at for at in queries.starting_ranks(case) if at.view is not None and at.view.resolved]
    good = [at for at in here if at.view is not None and at.view.outcome in queries.OPEN]
    bad = [at for at in here if at not in good]
    if case.graph.progress or not bad or not (good or loopback):
        return
    if loopback:
        bad = [at for at in bad if _is_inward(at) and _on_other_host(case, at, good)]
        if not bad:
            return
    else:
        usual = {(at.view.host, at.view.resolved) for at in good if at.view is not None}
        names = {name for name, _ in usual if not _is_address(name)}
        bad = [
            at
            for at in bad
            if at.view is not None
            and at.view.host in names
            and (at.view.host, at.view.resolved) not in usual
        ]
        if not bad:
            return
    first = bad[0].view
    other = good[0].view if good else None
    fields = queries.subject_fields(
        case, queries.states_of(case, bad), tuple(at.member for at in good)
    )
    fields |= queries.view_fields(first)
    fields["usual"] = ", ".join(other.resolved) if other is not None else "?"
    views = queries.distinct_views(at.view for at in (*bad[:3], *good[:1]))
    yield Hit(
        members=tuple(at.member for at in bad),
        affected=tuple(at.member for at in good),
        evidence=(
            *(queries.cite_view(view) for view in views),
            *queries.evidence_of(case, case.states[bad[0].member])[:1],
        ),
        names_culprit=not loopback or len(bad) < len(good),
        location=queries.location_of(case, case.states[bad[0].member]),
        fields=fields,
    )


def _is_inward(at: StartingRank) -> bool:
    """Return whether the place is the loopback of whoever asks."""
    return at.view is not None and all(_loops(address) for address in at.view.resolved)


def _loops(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    """Return whether a name is an address already."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _on_other_host(case: Case, at: StartingRank, good: Sequence[StartingRank]) -> bool:
    """Return whether a rank is on another host than rank 0, by networks or its number."""
    if good:
        networks = {other.view.network for other in good if other.view is not None}
        return at.view is not None and at.view.network not in networks
    member = case.member(at.member)
    if member.rank is None or member.local_rank is None or not member.processes:
        return False
    by_launcher = "LOCAL_WORLD_SIZE" in member.processes[-1].environ
    return by_launcher and member.rank > member.local_rank
