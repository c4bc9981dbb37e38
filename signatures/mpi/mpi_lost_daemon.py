"""mpirun lost contact with its daemon on a node.

The node died or was taken away (batch system, preemption, pod deleted), the daemon was killed
(out of memory), or the network between is wrong: several interfaces, a firewall. All ranks of
that node are gone or out of reach.

The ranks are not named; the node is.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-lost-daemon",
    category="rank-died",
    kind=Kind.CAUSE,
    title="mpirun lost node {node}",
    when=log(
        r"Remote daemon: \[\S+\] on node (?P<node>\S+)",
    ),
    means=(
        "A node dropped out of the MPI job, and its ranks with it. The other ranks wait for "
        "them until mpirun ends them."
    ),
    confidence=0.85,
    remedies=(
        (
            "Check that node: is it up, was it preempted, did the OOM killer end the daemon "
            "(orted, prted)?"
        ),
        (
            "If it is up: pin the interface with --mca oob_tcp_if_include and "
            "btl_tcp_if_include (prte_if_include in Open MPI 5)."
        ),
    ),
    next_steps=("ping -c 3 NODE; ssh NODE dmesg -T  # and what the batch system says of it",),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        "  Remote daemon: [[16919,0],3] on node n0127",
        "  Remote daemon: [prterun-node7-34@0,1] on node node8",
    ),
    misses=("  HNP daemon   : [[16919,0],0] on node n0031",),
    outranks=(
        "mpi-lost-a-daemon",
        "launcher-exit-code",
    ),
)
