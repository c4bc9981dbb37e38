"""The job asks for more processes than mpirun has slots.

The hostfile or the allocation gives fewer slots than -np, or slots count cores and hyper-
threads differently. Nothing is started.

Not a hang: mpirun says so and ends; what waits for the job may hang.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-not-enough-slots",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="mpirun has fewer slots than the job asks for",
    when=log(
        r"There are not enough slots available in the system to satisfy",
        r"All nodes which are allocated for this job are already filled",
    ),
    means="mpirun refused to start the job, because it has too few slots.",
    confidence=0.95,
    remedies=(
        (
            "Give slots=N in the hostfile, ask the batch system for as many tasks as ranks, or "
            "pass --oversubscribe (--map-by :OVERSUBSCRIBE)."
        ),
    ),
    next_steps=("mpirun --display-allocation -np 1 hostname",),
    matches=(
        "There are not enough slots available in the system to satisfy the 8",
        "There are not enough slots available in the system to satisfy the 16 slots",
        "All nodes which are allocated for this job are already filled.",
    ),
    misses=(
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "9 (Killed)."
        ),
    ),
    outranks=("launcher-exit-code",),
)
