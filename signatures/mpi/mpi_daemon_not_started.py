"""mpirun cannot start or reach its helper on a node.

ssh needs a password or is refused, Open MPI is missing or of another version in that node's
non-interactive path, the daemon cannot connect back through a firewall or over the wrong
interface.

The ranks of that node never start.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-daemon-not-started",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="mpirun could not start its daemons on all nodes",
    when=log(
        r"ORTE was unable to reliably start one or more daemons",
        r"PRTE was unable to reliably start one or more daemons",
        r"A process or daemon was unable to complete a TCP connection",
        r"ORTE does not know how to route a message to the specified daemon",
    ),
    means="Part of the nodes could not be brought into the job, so their ranks are missing.",
    confidence=0.88,
    remedies=(
        (
            "Make 'ssh NODE orted --version' work without a password and with the same Open "
            "MPI on all nodes."
        ),
        "Open TCP ports between the nodes; pin the interface with --mca oob_tcp_if_include.",
    ),
    next_steps=("ssh NODE which orted prted; mpirun --mca plm_base_verbose 5 -np 2 hostname",),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        "ORTE was unable to reliably start one or more daemons.",
        "A process or daemon was unable to complete a TCP connection",
        "ORTE does not know how to route a message to the specified daemon",
        "PRTE was unable to reliably start one or more daemons.",
    ),
    misses=("ORTE has lost communication with a remote daemon.",),
    outranks=("launcher-exit-code",),
)
