"""Ranks whose Python program is through: the interpreter has ended and the process lives on.

Nothing of Python is left to be seen, so what it waits for is known by elimination. A rank of MPI
calls ``MPI_Finalize`` as the last thing, after the interpreter (mpi4py), and waits there for
the other ranks.
"""

from collections.abc import Iterable

from whyhang.analyzer.facts import Gap, NoInterpreter
from whyhang.analyzer.job.launchers import MPI_RANKS
from whyhang.analyzer.job.records import Job, Member
from whyhang.analyzer.stacks import Place, Scope, WaitKind, phrase

STARTING = 5.0
"""Seconds in which a process may not have begun its interpreter."""


def without_interpreter(job: Job) -> set[tuple[str | None, int | None]]:
    """Return host and pid of the processes in which no interpreter was found."""
    return {(fact.who.host, fact.who.pid) for fact in job.of(NoInterpreter)}


def place_at_the_end(
    job: Job, member: Member, ended: set[tuple[str | None, int | None]]
) -> Place | None:
    """Place a rank after the end of its program; None where that is not what is seen.

    That py-spy knows the interpreter of another rank says that it would have known this one.
    """
    if (member.host, member.pid) not in ended or member.dumps or not member.processes:
        return None
    last = member.processes[-1]
    age = (last.taken_at or 0.0) - (last.started_at or last.taken_at or 0.0)
    if age < STARTING or not any(other.dumps for other in job.members):
        return None
    mpi = any(name in last.environ for name in MPI_RANKS)
    return Place(
        kind=WaitKind.MPI if mpi else WaitKind.TEARDOWN,
        scope=Scope.RANKS if mpi else Scope.MAYBE,
        says=phrase("in MPI_Finalize" if mpi else WaitKind.TEARDOWN.value),
        op="finalize" if mpi else None,
        through="its Python program has ended",
        certain=False,
    )


def gaps_beside(job: Job, placed: Iterable[Member]) -> tuple[Gap, ...]:
    """Return the gaps of a job without those for stacks that ranks at their end no longer have."""
    gone = {(member.host, member.pid) for member in placed}
    return tuple(
        gap
        for gap in job.gaps
        if (gap.who.host, gap.who.pid) not in gone or not gap.what.startswith("stacks of")
    )
