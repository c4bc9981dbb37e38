"""Every rank waits for others, but in different operations: they cannot meet.

The fewest are where to look first; a tie names nobody.
"""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import CONTRADICTED, INCOMPLETE, INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict, WaitKind
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import collective_of

MISMATCHES = (Verdict.MISMATCH, Verdict.SKIPPED, Verdict.EXTRA, Verdict.REORDERED, Verdict.DIVERGED)

ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""


def of_collectives(case: Case) -> Iterable[Hit]:
    kinds = {WaitKind.COLLECTIVE, WaitKind.BACKWARD, WaitKind.CUDA_SYNC}
    return queries.merged(_by_stacks(case, kinds), queries.recorded(case, *MISMATCHES))


def of_mpi(case: Case) -> Iterable[Hit]:
    return _by_stacks(case, {WaitKind.MPI})


OF_COLLECTIVES = Signature(
    id="collective-mismatch",
    story="""\
Ranks wait for each other in different operations of the same group.

Rank 3 calls broadcast where the others call all_reduce, or all call the same operation with
another shape or dtype. Nobody is missing, and still nobody can meet. The fewest are where to
look first; if the sides are equal, nobody is blamed. Several operations at once are normal
where groups are nested (tensor, data and pipeline parallel), so only two sides count.
""",
    category="collective-mismatch",
    level="program",
    title="The ranks {differ}: {sides}",
    when=of_collectives,
    means=("All wait for each other and cannot meet, for they {differ}: {sides}."),
    confidence="strong",
    remedies=(
        "Compare the two places in the code: which condition sends the ranks different ways?",
        (
            "Make every rank of a group call the same collectives in the same order with the same "
            "shapes and dtypes."
        ),
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run raises at the first mismatch.",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    links=(
        "https://pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications",
    ),
)

OF_MPI = Signature(
    id="mpi-mismatch",
    story="""\
MPI ranks are in different collectives of the same communicator.

One rank is in MPI_Barrier while the others are in MPI_Bcast, or a communicator is duplicated
by some only. MPI does not check; everyone spins. The fewest are where to look first.
""",
    category="mpi-mismatch",
    level="program",
    title="The MPI ranks are in different calls: {sides}",
    when=of_mpi,
    means="Every rank waits inside MPI, but not in the same call: {sides}.",
    confidence="strong",
    remedies=("Make every rank of a communicator call the same collectives in the same order.",),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # on one rank of each side",),
)

SIGNATURES = (OF_COLLECTIVES, OF_MPI)


def _by_stacks(case: Case, kinds: set[WaitKind]) -> Iterator[Hit]:
    """Yield one hit if nobody is elsewhere and two operations stand against each other."""
    graph = case.graph
    if graph.lagging or graph.progress or not queries.all_seen(case) or queries.all_recorded(case):
        return
    meetings = [m for m in graph.operations if m.kind in kinds]
    if len(meetings) != len(graph.operations) or len(meetings) < 2:
        return
    yield _hit(case, meetings)


def _hit(case: Case, meetings: list[PendingOperation]) -> Hit:
    counts = [queries.count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    tie = tie or (min(counts) > 1 and any(m.op in ONE_SIDED for m in meetings if m is not fewest))
    others = [meeting for meeting in meetings if meeting is not fewest]
    shown = [case.states[m.members[0]] for m in (fewest, *others)]
    waiting = tuple(sorted(n for meeting in others for n in meeting.members))
    same = len({m.op for m in meetings}) < len(meetings)
    sides = " and ".join(
        f"{case.names(m.members)} in {m.says.call if same else m.op}" + _at_sites(m)
        for m in (fewest, *others)
    )
    # More than two operations, or point-to-point among them, is what pipelines and
    # nested groups look like when the one late rank is not among those seen.
    plain = len(meetings) == 2 and all(m.kind is not WaitKind.P2P for m in meetings)
    return Hit(
        members=() if tie else fewest.members,
        affected=tuple(sorted((*fewest.members, *waiting))) if tie else waiting,
        evidence=tuple(piece for state in shown for piece in queries.evidence_of(case, state)),
        strength=(INDIRECT if not tie else INCOMPLETE) if plain else CONTRADICTED,
        names_culprit=not tie,
        collective=collective_of(case, fewest, ", ".join(m.op for m in others)),
        location=queries.location_of(case, shown[0]) if not tie else None,
        fields={
            "sides": sides,
            "differ": "call different collectives",
            **queries.subject_fields(case, [shown[0]], waiting),
        },
    )


def _at_sites(meeting: PendingOperation) -> str:
    return f" ({meeting.sites[0]})" if meeting.sites and meeting.sites[0] else ""
