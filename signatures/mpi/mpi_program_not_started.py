"""The program or its directory does not exist on a node.

A path that is not shared, an image that lacks it, a conda environment on a local disk, a
mistyped option taken for a program's name. The ranks of that node never start.

mpirun prints the program and the node below its message.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-program-not-started",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="mpirun could not start the program on a node",
    when=log(
        (
            r"was unable to (?:find the specified executable file|launch the specified "
            r"application|start the specified application)"
        ),
    ),
    means="Ranks of some node could not be started.",
    confidence=0.88,
    remedies=(
        (
            "Install the program and its environment on every node, or use a shared path; "
            "check mpirun's options."
        ),
    ),
    next_steps=("ssh NODE ls -l PROGRAM",),
    matches=(
        "mpirun was unable to find the specified executable file, and therefore",
        "mpirun was unable to launch the specified application as it could not access",
        "prterun was unable to start the specified application as it encountered an",
    ),
    misses=("bash: mpirun: command not found",),
    outranks=("launcher-exit-code",),
)
