"""mpirun lost contact with a daemon; this line does not say on which node.

The lines below it name the node (mpi-lost-daemon). Causes are the death of the node or of the
daemon, or the network between the nodes.

Also the words for a daemon that ended during the job.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-lost-a-daemon",
    category="rank-died",
    kind=Kind.CAUSE,
    title="mpirun lost a node of the job",
    when=log(
        r"(?:ORTE|PRTE|PRRTE) has lost communication with a remote daemon",
        r"has detected that a required daemon terminated during execution",
        r"ORTE daemon has unexpectedly failed after launch",
    ),
    means="A node or its daemon is gone, and the ranks there with it.",
    confidence=0.75,
    remedies=(
        "Look at the lines below for the node, and check that it is up.",
        "If nodes are up: pin the interface with --mca oob_tcp_if_include and btl_tcp_if_include.",
    ),
    next_steps=(
        "ping -c 3 NODE; ssh NODE true  # between the nodes; and what the batch system says",
    ),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        "ORTE has lost communication with a remote daemon.",
        "PRTE has lost communication with a remote daemon.",
        "An ORTE daemon has unexpectedly failed after launch and before",
        "mpirun has detected that a required daemon terminated during execution",
    ),
    misses=("ORTE was unable to reliably start one or more daemons.",),
    outranks=("launcher-exit-code",),
)
