"""Ranks whose Python program is through: the interpreter has ended and the process lives on.

Nothing of Python is left to be seen, so what it waits for is known by elimination. A rank of MPI
calls ``MPI_Finalize`` as the last thing, after the interpreter (mpi4py), and waits there for
the other ranks.
"""

from collections.abc import Iterable

from whyhang.analyzer.facts import Gap, NoInterpreter
from whyhang.analyzer.job.launchers import MPI_RANKS
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.stacks import Place, Scope, WaitKind, phrase

STARTING = 5.0
"""Seconds in which a process may not have begun its interpreter."""


def places_at_the_end(job: Job) -> dict[int, Place]:
    """Return the places of members that stand after the end of their program.

    That py-spy knows the interpreter of another rank says that it would have known this one.
    """
    ended = {(fact.who.host, fact.who.pid) for fact in job.of(NoInterpreter)}
    known = any(member.dumps for member in job.members)
    places = {}
    for member in job.members if ended and known else ():
        if (member.host, member.pid) not in ended or member.dumps or not member.processes:
            continue
        last = member.processes[-1]
        age = (last.taken_at or 0.0) - (last.started_at or last.taken_at or 0.0)
        mpi = any(name in last.environ for name in MPI_RANKS)
        if age >= STARTING:
            places[member.id] = Place(
                kind=WaitKind.MPI if mpi else WaitKind.TEARDOWN,
                scope=Scope.RANKS if mpi else Scope.MAYBE,
                says=phrase("in MPI_Finalize" if mpi else WaitKind.TEARDOWN.value),
                op="finalize" if mpi else None,
                through="its Python program has ended",
                certain=False,
            )
    return places


def gaps_beside(job: Job, members: Iterable[int]) -> tuple[Gap, ...]:
    """Return the gaps of a job without those for stacks that ranks at their end no longer have."""
    gone = {(job.members[number].host, job.members[number].pid) for number in members}
    return tuple(
        gap
        for gap in job.gaps
        if (gap.who.host, gap.who.pid) not in gone or not gap.what.startswith("stacks of")
    )
