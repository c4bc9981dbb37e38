"""A rank runs in an endless loop of its own and never comes to the collective.

It burns CPU in one function: between two looks its line may change, but neither the function
nor its callers do, while the ranks that wait did not run at all. A very long computation
looks the same; more looks tell them apart.
"""

from whyhang.analyzer.match import (
    KNOWN_LOCAL_CAUSES,
    Kind,
    Moved,
    Signature,
    Status,
    WaitKind,
    late,
)

SIGNATURE = Signature(
    id="rank-spinning",
    category="rank-spinning",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {runs} in a loop at {where} and {do} not come to {call}",
    when=late(
        WaitKind.WORK,
        WaitKind.BACKWARD,
        besides=KNOWN_LOCAL_CAUSES,
        states=(Status.RUNNING,),
        moves=(Moved.IN_PLACE,),
    ),
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
