"""Ranks are in the same broadcast, but do not mean the same sender.

``dist.broadcast(x, src=best)`` where each rank found another best one; a checkpoint that only
some ranks saw. The operation, the group and the place in the code agree, the root does not, and
everyone waits for a rank that waits itself. The same holds for scatter, gather and reduce.
"""

from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallArgument, RootArgument, grouped, replace
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.report import Collective, cite

_DIRECT = {"scatter", "gather"}
"""Operations without a tree: each rank's part goes from or to the root itself."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit; those who differ from most are to blame, or whose root has gone on."""
    calls = [call for call in case.job.of(RootArgument) if call.who.rank is not None]
    calls = calls or _roots_by_variables(case)
    if len(calls) < 2 or case.graph.progress or case.graph.lagging or not queries.all_seen(case):
        return
    # of one line of the program, an operation is the part of a call that its rank has come to
    one_line = len({case.states[member].user for member in _members(case, calls)}) == 1
    one_line = one_line or len({(call.op, call.in_default_group) for call in calls}) == 1
    sides = sorted(grouped(calls, _meant if one_line else _words).values(), key=len)
    if len({call.root for call in calls}) < 2 or _are_groups(sides):
        return
    most = len(sides[-1])
    odd = [call for side in sides if len(side) < most for call in side]
    if not odd or len(odd) * 2 >= len(calls):
        odd = _without_their_root(sides)
    members = _members(case, odd)
    affected = tuple(n for n in _members(case, calls) if n not in members)
    shown = (members or affected)[0]
    words = "; ".join(_side(side) for side in sides[:4])
    of_mpi = any(operation.kind is WaitKind.MPI for operation in case.graph.operations)
    yield queries.hit_about(
        case,
        members,
        affected,
        shown=[shown],
        evidence=(
            *(
                cite(call.source, f"root of the call in its stack: {_words(call)}", call.who.rank)
                for call, *_ in sides[:4]
            ),
            *queries.places_of(case, shown),
        ),
        fields={"sides": words},
        collective=Collective(op=calls[0].op, others=words),
        category="mpi-mismatch" if of_mpi else "",
    )


SIGNATURE = Signature(
    id="root-differs",
    category="collective-mismatch",
    level="program",
    title="The ranks disagree on the root of one call: {sides}",
    when=when,
    means=(
        "These ranks stand in one call, but not for the same root: {sides}. Whoever is taken "
        "for the sender waits for another one."
    ),
    confidence="strong",
    remedies=(
        "Agree on the root before the call: compute it on one rank and broadcast it from rank 0.",
    ),
    next_steps=("py-spy dump --locals --pid {pid}  # src or dst of torch's own frame",),
)


def _roots_by_variables(case: Case) -> list[RootArgument]:
    """List the roots of a call of MPI, by the variables of all ranks in the function around it.

    Some have come past the call by now: nobody waits in it for all others.
    """
    given = [fact for fact in case.job.of(CallArgument) if fact.name == "root"]
    lines = grouped(given, lambda fact: (fact.file, fact.line)).values()
    in_call = [facts for facts in lines if any(fact.stands for fact in facts)]
    return [
        RootArgument(
            op=fact.op.lower(),
            root=int(fact.value),
            who=replace(fact.who, rank=member.rank, trust=member.trust),
            source=fact.source,
        )
        for fact in (in_call[0] if len(in_call) == 1 else ())
        if fact.value.isdecimal() and (member := case.job.member_of(fact.who)) is not None
    ]


def _without_their_root(sides: Sequence[Sequence[RootArgument]]) -> list[RootArgument]:
    """List the calls for a root that is not in the call, beside others whose root is.

    Only where the root deals with each rank by itself: in a tree it may have done its part.
    """
    if any(call.op not in _DIRECT for side in sides for call in side):
        return []
    odd = [side for side in sides if all(call.who.rank != call.root for call in side)]
    return [call for side in odd for call in side] if len(odd) < len(sides) else []


def _members(case: Case, calls: Iterable[RootArgument]) -> tuple[int, ...]:
    callers = (case.job.member_of(call.who) for call in calls)
    return tuple(sorted({member.id for member in callers if member is not None}))


def _are_groups(sides: Sequence[Sequence[RootArgument]]) -> bool:
    """Return whether these may be several groups, each in a broadcast of its own.

    In the default group they are not, and a rank alone is no group that waits.
    """
    if sum(side[0].in_default_group for side in sides) > 1:
        return False
    return all(len(side) > 1 and any(call.who.rank == call.root for call in side) for side in sides)


def _side(side: Sequence[RootArgument]) -> str:
    way = "to" if side[0].op in {"gather", "reduce"} else "from"
    ranks = [call.who.rank for call in side if call.who.rank is not None]
    return f"{queries.ranks_in_words(ranks)} in {side[0].op} {way} rank {side[0].root}"


def _meant(call: RootArgument) -> str:
    return f"{call.root}{' in the default group' if call.in_default_group else ''}"


def _words(call: RootArgument) -> str:
    return f"{call.op} {_meant(call)}"
