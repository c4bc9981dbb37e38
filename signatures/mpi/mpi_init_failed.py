"""MPI could not initialise in some process.

The text below the line gives the layer: orte_init (session directory not writable, /tmp full),
PMIx (version of the launcher), a network component. The ranks that got through wait for those
that did not.

Often a permission or space problem of one host.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-init-failed",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="MPI_Init failed",
    when=log(
        r"It looks like (?:MPI_INIT|orte_init|opal_init|MPI_Init) failed for some reason",
        r"Fatal error in (?:P?MPI_Init|internal_Init)(?:_thread)?: ",
    ),
    means="Some process could not start MPI, and the others wait for it.",
    confidence=0.75,
    remedies=(
        (
            "Read the lines below for the failing component; check /tmp and TMPDIR on that "
            "host, and that launcher and library come from one installation."
        ),
    ),
    next_steps=(
        "ompi_info | head; which mpirun; ldd $(which mpirun)  # on that host",
        "mpirun -np 2 --host BADHOST hostname",
    ),
    matches=(
        "It looks like MPI_INIT failed for some reason; your parallel process is",
        "It looks like orte_init failed for some reason; your parallel process is",
        "Fatal error in PMPI_Init_thread: Other MPI error, error stack:",
    ),
    misses=("[n0042:20133] *** An error occurred in MPI_Recv",),
    outranks=("launcher-exit-code",),
)
