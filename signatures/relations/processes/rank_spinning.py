"""A rank runs in an endless loop of its own and never comes to the collective.

It burns CPU in one function: between two looks its line may change, but neither the function
nor its callers do, while the ranks that wait did not run at all. A very long computation
looks the same; more looks tell them apart.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Moved, Signature, Status, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(
        case,
        WaitKind.WORK,
        WaitKind.BACKWARD,
        besides=queries.KNOWN_LOCAL_CAUSES,
        states=(Status.RUNNING,),
        moves=(Moved.IN_PLACE,),
    )


SIGNATURE = Signature(
    id="rank-spinning",
    category="rank-spinning",
    level="program",
    title="{who} {runs} in a loop at {where} and {do} not come to {call}",
    when=when,
    means=(
        "{who} {use} the CPU and {stay} in the same function with the same callers from look to "
        "look, while {others} {wait} for it in {call}: an endless loop, or a very long computation."
    ),
    confidence="strong",
    remedies=(
        "Read the loop at {where}: which condition should end it, and can it on this rank's data?",
    ),
    next_steps=("whyhang {pid} --looks 6 --interval 5  # does it ever leave the function?",),
)
