"""One rank is elsewhere in its program while the others wait for it in a collective or MPI call."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status, Verdict, WaitKind

STARTING = (WaitKind.INIT, WaitKind.STORE)
"""What ranks wait in before the first collective: signatures of the start-up speak of that."""


def in_program(case: Case) -> Iterable[Hit]:
    blocked = queries.lagging(
        case,
        besides=(*queries.KNOWN_LOCAL_CAUSES, WaitKind.WORK),
        states=(Status.BLOCKED,),
        not_while_in=STARTING,
    )
    working = queries.lagging(
        case,
        WaitKind.WORK,
        besides=queries.KNOWN_LOCAL_CAUSES,
        moves=queries.RESTING,
        not_while_in=STARTING,
    )
    return queries.merged(
        blocked, queries.merged(working, queries.recorded(case, Verdict.NEVER_JOINED))
    )


def elsewhere(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, moves=queries.RESTING)


def in_mpi(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, besides=queries.KNOWN_LOCAL_CAUSES, while_in=(WaitKind.MPI,))


IN_PROGRAM = Signature(
    id="missing-rank-in-collective",
    story="""\
One rank is elsewhere in the program while the others wait for it in a collective.

Usually a branch on rank-local data (an empty batch, a NaN check, ``if rank == 0``) around a
collective, or one rank that does something long before it. The waiting ranks are healthy;
look at the one that waits for nobody. Where its own stack names a cause that has a signature
of its own (a blocked DataLoader, a lock, a stopped process), that signature speaks instead.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} {has} not reached {call}: {does}{at}",
    when=in_program,
    means=(
        "{who} waits for no other rank, while {others} {wait} in {call}. "
        "What {who} does there is the cause; the waiting ranks are healthy."
    ),
    confidence="strong",
    remedies=(
        "Look at {where}: why {is} {who} there and not in {call}?",
        (
            "Call the collective on every rank of the group or on none: no branch on rank-local "
            "data (empty batch, NaN, rank 0) may stand around it."
        ),
    ),
    next_steps=(
        "py-spy dump --pid {pid}  # of {who}, twice: does the stack change?",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names the collective that differs.",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
)

ELSEWHERE = Signature(
    id="missing-rank-elsewhere",
    story="""\
Ranks wait in a collective for one that is somewhere no other signature knows.

The safety net of ``missing-rank-in-collective``: whatever a late rank does, if nothing more
particular speaks for it, it is still the one that the others wait for.
""",
    category="missing-rank-in-collective",
    level="fallback",
    title="{who} {has} not reached {call}: {does}{at}",
    when=elsewhere,
    means=(
        "{others} {wait} in {call}; {who} waits for no other rank and {has} not come to it. "
        "What {who} does there is the cause."
    ),
    confidence="likely",
    remedies=("Look at {where}: why {is} {who} there and not in {call}?",),
    next_steps=("py-spy dump --native --pid {pid}  # of {who}, twice: does the stack change?",),
)

IN_MPI = Signature(
    id="mpi-missing-rank",
    story="""\
One MPI rank is elsewhere while the others wait for it inside an MPI call.

The waiting ranks spin in opal_progress at full CPU, so CPU use says nothing here. The rank
that is in no MPI call, or has ended, is the one to look at.
""",
    category="mpi-missing-rank",
    level="wait",
    title="{who} {has} not come to the MPI call of the others: {does}{at}",
    when=in_mpi,
    means="{others} {wait} inside {call}; {who} is in no MPI call ({does}{at}).",
    confidence="strong",
    remedies=("Look at {where}: why {is} {who} there and not in the MPI call?",),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # of {who}",),
    # says the same in MPI's words
    explains=("missing-rank-in-collective",),
)

SIGNATURES = (IN_PROGRAM, ELSEWHERE, IN_MPI)
