"""Every rank stands in the same MPI call and none comes back.

Nobody is missing. Stacks do not show the arguments: the ranks may be on different communicators
(one on a copy of the world), name different roots or counts, or be one call apart in a loop.
Less likely, the messages do not arrive.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, all_arrived

SIGNATURE = Signature(
    id="mpi-all-in-one-call",
    category="mpi-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="All ranks stand in {call} of MPI and none comes back: not the same call for all",
    when=all_arrived(WaitKind.MPI),
    means=(
        "Everyone that was seen is inside {call}; no rank is missing. Different communicators, "
        "roots or counts look so, and so does one rank that is a call ahead of the others."
    ),
    confidence="possible",
    remedies=(
        "Compare on all ranks what {where} is called with: communicator, root, count, type.",
        "If all agree, try another transport: mpirun --mca btl tcp,self (Open MPI).",
    ),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # of two ranks: which comm=?",),
    explains=("stuck-together",),
)
