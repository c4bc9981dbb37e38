"""A rank runs in an endless loop of its own and never comes to the collective.

It burns CPU in one function, and in those that it calls: its line may change from look to look, but
it is back in the function each time, while the ranks that wait did not run at all. A slow rank
looks the same for a while; how long its step lasts beside those before tells them apart. A very
long computation is one that this cannot tell.
"""

from collections.abc import Iterable

from whyhang.analyzer.queries import (
    KNOWN_LOCAL_CAUSES,
    Case,
    Hit,
    Kind,
    Moved,
    Signature,
    Status,
    WaitKind,
    lagging,
)


def when(case: Case) -> Iterable[Hit]:
    return lagging(
        case,
        WaitKind.WORK,
        WaitKind.BACKWARD,
        besides=KNOWN_LOCAL_CAUSES,
        states=(Status.RUNNING,),
        moves=(Moved.IN_PLACE,),
    )


SIGNATURE = Signature(
    id="rank-spinning",
    category="rank-spinning",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {runs} in a loop at {where} and {do} not come to {call}",
    when=when,
    means=(
        "{who} {use} the CPU and {stay} in the same function with the same callers from look to "
        "look, while {others} {wait} for it in {call}: an endless loop, or a very long computation."
        "{lasting}"
    ),
    confidence="strong",
    remedies=(
        "Read the loop at {where}: which condition should end it, and can it on this rank's data?",
    ),
    next_steps=("whyhang {pid} --looks 6 --interval 5  # does it ever leave the function?",),
)
