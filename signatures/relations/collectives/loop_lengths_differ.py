"""A loop around the calls of the ranks is gone round less often by few of them.

``for _ in range(n)`` with a send, a receive or a collective in it, where ``n`` was computed on each
rank: a division that is rounded up here and down there, a length of the rank's own data. The few
leave the loop while the others wait for another turn of theirs.

Stages of a pipeline warm up in loops of unlike length by design; those have fewer turns than there
are ranks, and tell nothing.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallArgument, grouped
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind, cite
from whyhang.analyzer.report import Location

TIMES = 2
"""As many ranks as the few, the many are at least; of two ranks none is the odd one."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for each loop that few ranks go round less often, and have left."""
    if case.graph.progress or case.graph.lagging or not queries.all_seen(case):
        return
    arguments = case.job.of(CallArgument)
    lengths = [fact for fact in arguments if fact.name == "range" and fact.value.isdecimal()]
    for loop in grouped(lengths, lambda fact: (fact.file, fact.line)).values():
        last = {m.id: fact for fact in loop if (m := case.job.member_of(fact.who)) is not None}
        by_length = grouped(last.items(), lambda item: int(item[1].value))
        if len(by_length) != 2 or len(last) != len(case.states):
            continue
        short, long = (dict(by_length[length]) for length in sorted(by_length))
        few, many = sorted((short, long), key=len)
        if (
            min(by_length) >= len(case.states)
            and TIMES * len(few) <= len(many)
            and not any(fact.stands for fact in short.values())
            and any(fact.stands for fact in long.values())
        ):
            yield _hit(case, few, many)


def _hit(case: Case, few: dict[int, CallArgument], many: dict[int, CallArgument]) -> Hit:
    (one, fact), (other, its) = next(iter(few.items())), next(iter(many.items()))
    kinds = {operation.kind for operation in case.graph.operations}
    shown = [
        cite(
            each.source,
            f"{each.value} turns of the loop at {each.file}:{each.line}",
            case.member(number).rank,
        )
        for number, each in ((one, fact), (other, its))
    ]
    return Hit(
        members=tuple(few),
        affected=tuple(many),
        category="p2p-mismatch" if WaitKind.P2P in kinds else "",
        evidence=(*shown, *queries.places_of(case, one, other)),
        location=Location(file=fact.file, line=fact.line, function=fact.function),
        fields={
            "who": case.names(few),
            "others": case.names(many),
            "loop": f"{fact.function.rpartition('.')[2]} ({fact.file}:{fact.line})",
            "times": fact.value,
            "more": its.value,
        },
    )


SIGNATURE = Signature(
    id="loop-lengths-differ",
    category="uneven-inputs",
    level="program",
    title="The loop at {loop} has {times} turns on {who} and {more} on {others}",
    when=when,
    means=(
        "All ranks wait, and in this loop they call each other; but it has {times} turns on {who} "
        "and {more} on {others}, so the last calls have no partner."
    ),
    confidence="strong",
    remedies=(
        "Compute the number of turns once and give it to all ranks, or agree on the smallest.",
        "Look how it is computed: is it rounded, or counted on each rank's own data?",
    ),
    next_steps=("py-spy dump --locals --pid PID  # of {who} and of another rank",),
)
