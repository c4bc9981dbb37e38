"""A message arrived that does not fit the posted buffer.

The two ends are in different calls or with different sizes: mismatched counts or data types, a
wrong tag that pairs the wrong messages, ranks in different collectives, or two threads on one
communicator.

The rank that prints it is the receiver. Which side is wrong it cannot know.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-truncated",
    category="mpi-mismatch",
    kind=Kind.CAUSE,
    title="An MPI message was longer than its receiver expected",
    when=log(
        r"MPI_ERR_TRUNCATE: message truncated",
        r"Message truncated; \d+ bytes received but buffer size is \d+",
        r"Fatal error in \w+: Message truncated",
    ),
    means="A send and a receive (or a collective) met that do not fit together.",
    confidence=0.9,
    remedies=(
        "Compare counts, data types, tags and the order of calls on both sides.",
        "Use a communicator of its own (comm.Dup()) for each library or thread.",
    ),
    next_steps=(
        "Print the call, its count and tag on both ranks before it",
        "py-spy dump --native --pid PID  # of the ranks, if they still live",
    ),
    matches=(
        "[n0042:20133] *** MPI_ERR_TRUNCATE: message truncated",
        "mpi4py.MPI.Exception: MPI_ERR_TRUNCATE: message truncated",
        "Fatal error in PMPI_Recv: Message truncated, error stack:",
        (
            "MPIDI_CH3U_Receive_data_found(131): Message from rank 0 and tag 7 truncated; "
            "Message truncated; 80 bytes received but buffer size is 40"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] bootstrap.cc:121 NCCL WARN Message truncated : received 1024 "
            "bytes instead of 256"
        ),
    ),
    outranks=(
        "mpi-error-is-fatal",
        "mpi-abort",
        "mpirun-exit-code",
        "launcher-exit-code",
    ),
)
