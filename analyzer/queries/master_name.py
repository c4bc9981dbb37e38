"""The name of the master leads to different hosts for different ranks."""

import ipaddress
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.store_place import (
    OPEN,
    StartingRank,
    cite_view,
    distinct_views,
    starting_ranks,
    states_of,
    view_fields,
)
from whyhang.analyzer.wording.describe import location_of
from whyhang.analyzer.wording.evidence import evidence_of
from whyhang.analyzer.wording.title_fields import subject_fields


def resolves_differently(case: Case, *, loopback: bool) -> Iterator[Hit]:
    """Yield one hit for ranks that find something else under the name than those that get through.

    ``loopback``: the address is the loopback of each rank's own host instead, so that every host
    finds itself there.
    """
    here = [at for at in starting_ranks(case) if at.view is not None and at.view.resolved]
    good = [at for at in here if at.view is not None and at.view.outcome in OPEN]
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
    fields = subject_fields(case, states_of(case, bad), tuple(at.member for at in good))
    fields |= view_fields(first)
    fields["usual"] = ", ".join(other.resolved) if other is not None else "?"
    views = distinct_views(at.view for at in (*bad[:3], *good[:1]))
    yield Hit(
        members=tuple(at.member for at in bad),
        affected=tuple(at.member for at in good),
        evidence=(
            *(cite_view(view) for view in views),
            *evidence_of(case, case.states[bad[0].member])[:1],
        ),
        names_culprit=not loopback or len(bad) < len(good),
        location=location_of(case, case.states[bad[0].member]),
        fields=fields,
    )


def _is_inward(at: StartingRank) -> bool:
    """Return whether the place is the loopback of whoever asks."""
    return at.view is not None and all(is_loopback(address) for address in at.view.resolved)


def is_loopback(place: str) -> bool:
    """Return whether an address, or the name "localhost", leads back to whoever asks."""
    try:
        return ipaddress.ip_address(place).is_loopback
    except ValueError:
        return place == "localhost"


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
