"""A rank has no living process any more, and the others wait for it.

It was killed (out of memory, a node that went away, kill -9), it crashed, or it ended early.
Said only where the evidence covers the host it should be on: its siblings say how many ranks
were started there, and it is not among the processes.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(
        queries.absent(case, starting=False),
        queries.lagging(case, states=(Status.GONE,), alone=True),
    )


SIGNATURE = Signature(
    id="rank-died",
    category="rank-died",
    level="program",
    title="{who} {has} no living process{waiting}",
    when=when,
    means=(
        "{who} should run here and {do} not. Whoever waits in {call} will not notice before the "
        "timeout."
    ),
    confidence="strong",
    remedies=(
        "Find out how it ended: its own log, dmesg (oom-kill), the scheduler's accounting.",
        "Start ranks with a launcher that ends the job when one rank dies (torchrun, srun -K).",
    ),
    next_steps=("dmesg -T | grep -iE 'oom|killed process|segfault'",),
    # a dead rank creates no group
    explains=("group-creation-mismatch",),
)
