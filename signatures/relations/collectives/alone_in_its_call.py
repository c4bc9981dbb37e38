"""One rank is alone in a collective, while others wait in another one without it.

Its watchdog or recorder shows calls that no other rank has made; tracebacks of several others show
them in one operation, a barrier mostly, that they could not end without it. The others that have
not made those calls are not late: they wait where the rest waits. It took another branch, or runs a
loop once more.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.queries import INDIRECT, Case, Hit, Signature, Verdict


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the rank that is alone."""
    for finding in case.graph.calls.of(Verdict.NEVER_JOINED):
        elsewhere = queries.others_elsewhere(case, finding)
        if not elsewhere:
            continue
        hit = queries.recorded_hit(case, finding)
        (alone,) = queries.members_of(case, finding.waiting)
        place = case.states[elsewhere[0]].place
        yield replace(
            hit,
            members=(alone,),
            ranks=(),
            affected=elsewhere,
            names_culprit=True,
            strength=INDIRECT,
            evidence=(*hit.evidence, *queries.places_of(case, *elsewhere[:2])),
            fields={
                **hit.fields,
                "who": case.names([alone]),
                "others": case.names(elsewhere),
                "where": f"wait in {place.says.call if place is not None else 'another operation'}",
            },
        )


SIGNATURE = Signature(
    id="alone-in-its-call",
    category="collective-mismatch",
    level="program",
    title="{who} is alone in {call}, while {others} {where}",
    when=when,
    means=(
        "{who} has made calls that no other rank has made; {others} {where}. It has taken "
        "another branch than the others, or goes round a loop once more."
    ),
    confidence="likely",
    remedies=(
        "Look for a condition in front of the call that not all ranks see alike.",
        "Let all ranks decide together: reduce the condition over all of them first.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, and of one of the others",),
)
