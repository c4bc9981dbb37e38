"""A rank has no living process any more, and the others wait for it.

It was killed (out of memory, a node that went away, kill -9), it crashed, or it ended early.
Said only where the evidence covers the host it should be on: its siblings say how many ranks
were started there, and it is not among the processes.
"""

from collections.abc import Iterable

from whyhang.analyzer.queries import Case, Hit, Kind, Signature, Status, absent, lagging, merged
from whyhang.analyzer.stacks import CRASH


def crashed(case: Case) -> Iterable[Hit]:
    return lagging(case, op=CRASH, alone=True)


def when(case: Case) -> Iterable[Hit]:
    return merged(absent(case, starting=False), lagging(case, states=(Status.GONE,), alone=True))


NO_PROCESS = Signature(
    id="rank-died",
    category="rank-died",
    kind=Kind.CAUSE,
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

CRASHED = Signature(
    id="rank-crashed-in-handler",
    story="""\
A rank has crashed and has not ended, and the others wait for it.

A signal came in the middle of an allocation, a copy or an abort, and its handler, which should
report the crash, does not come back: it waits for a lock that the broken heap holds, or for a
debugger. The process is there, so no launcher notices.
""",
    category="rank-died",
    level="program",
    title="{who} {has} crashed and not ended{at}: {does}{waiting}",
    when=crashed,
    means="{who} broke there; its handler keeps it alive, and whoever waits for it waits for ever.",
    confidence="strong",
    remedies=(
        "Look at what {who} frees or copies at {where}: the heap was damaged there or before.",
        "Let a crash end the process (no handler that waits), so that the launcher notices.",
    ),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # of {who}",),
    explains=("missing-rank-in-collective", "mpi-missing-rank", "mpi-mismatch"),
)

SIGNATURES = (NO_PROCESS, CRASHED)
