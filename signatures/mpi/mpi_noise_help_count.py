"""Open MPI counts processes that sent the same help message.

The line tells the topic of a message that was printed once before; that message matters, not
the count.

The advice about orte_base_help_aggregate belongs to it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-noise-help-count",
    category="healthy",
    kind=Kind.NOISE,
    title="Open MPI folds repeated help messages",
    when=log(
        r"more process(?:es)? ha(?:s|ve) sent help message",
        r"Set MCA parameter \"?orte_base_help_aggregate",
    ),
    means="Only a count of messages that were shown once already.",
    confidence=0.9,
    matches=(
        "[n0042:20133] 47 more processes have sent help message help-mpi-api.txt / mpi-abort",
        (
            '[n0042:20133] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / '
            "error messages"
        ),
    ),
    misses=("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",),
)
