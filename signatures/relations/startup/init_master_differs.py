"""A rank was told another address or port of the master than the rest.

By its environment, by its own code (``init_method``) or by an old file. It knocks at a door where
nobody listens, or at another job's store, while the others wait for it in init_process_group.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Address, InitArguments
from whyhang.analyzer.findings.signature import CLEAR, INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature, StartingRank
from whyhang.analyzer.report import Evidence


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that were given another place and do not reach the others' store.

    The place of rank 0 is the right one, because its store is there; without rank 0 the most
    frequent is.
    """
    here = queries.starting_ranks(case)
    usual = _usual_address(case, here)
    if usual is None or case.graph.progress:
        return
    odd = [at for at in here if at.address != usual and not _same_place(at, here, usual)]
    rest = [at for at in here if at.address == usual]
    if not odd:
        return
    fields = queries.subject_fields(
        case, queries.states_of(case, odd), tuple(at.member for at in rest)
    )
    fields["theirs"], fields["usual"] = str(odd[0].address), str(usual)
    view = odd[0].view
    fields["there"] = (
        f", where {queries.SAYS[view.outcome]}"
        if view is not None and view.outcome in queries.SAYS
        else ""
    )
    proven = queries.state_of_rank_0(case) is not None or len(odd) < len(rest)
    yield Hit(
        members=tuple(at.member for at in odd),
        affected=tuple(at.member for at in rest),
        evidence=(
            *(_cite_given(case, at) for at in (*odd[:3], *rest[:2])),
            *([queries.cite_view(view)] if view is not None else []),
            *queries.evidence_of(case, case.states[odd[0].member])[:1],
        ),
        names_culprit=proven,
        strength=CLEAR if proven else INDIRECT,
        location=queries.location_of(case, case.states[odd[0].member]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="init-master-differs",
    category="init-master-unreachable",
    level="setup",
    title="{who} {has} another master ({theirs}{there}) than the other ranks ({usual})",
    when=when,
    means=(
        "All ranks must meet at one MASTER_ADDR and MASTER_PORT. {who} {is} at {theirs}{there}, "
        "the others at {usual}; init_process_group waits on both sides."
    ),
    confidence="certain",
    remedies=(
        "Start every rank with the same MASTER_ADDR and MASTER_PORT, or the same init_method.",
    ),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep MASTER  # of each rank",),
)


def _usual_address(case: Case, here: Sequence[StartingRank]) -> Address | None:
    """Return the place that rank 0 was given, else that of the most."""
    first = next((at.address for at in here if case.member(at.member).rank == 0), None)
    if first is not None or not here:
        return first
    return Counter(at.address for at in here).most_common(1)[0][0]


def _same_place(one: StartingRank, here: Sequence[StartingRank], usual: Address) -> bool:
    """Return whether another name leads to the same store, as localhost may."""
    other = next((at.view for at in here if at.address == usual and at.view is not None), None)
    if one.view is None or other is None:
        return (one.address.port, one.address.file) == (usual.port, usual.file)
    return one.view.port == other.port and {one.view.outcome, other.outcome} <= queries.OPEN


def _cite_given(case: Case, at: StartingRank) -> Evidence:
    """Return where a rank was given its place: in the call, else in its environment."""
    member = case.member(at.member)
    given = next(
        (g for g in case.job.of(InitArguments) if g.address and g.who.pid == member.pid), None
    )
    source = given.source if given is not None else member.processes[-1].source
    words = (
        f"init_process_group at {given.address}"
        if given is not None
        else f"MASTER_ADDR:MASTER_PORT={at.address}"
    )
    return queries.cite(source, f"pid {member.pid}: {words}", member.rank)
