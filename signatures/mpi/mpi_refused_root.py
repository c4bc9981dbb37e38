"""mpirun does not start anything for the user root unless told to.

Containers often run as root, so that the first start in a new image fails with this text.
Nothing was started.

What waits for the job (another launcher, a pod that holds the others) may hang.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-refused-root",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    title="mpirun refused to run as root",
    when=log(
        r"(?:mpirun|mpiexec|prterun|orterun) has detected an attempt to run as root",
    ),
    means="mpirun ended at once, because it was started as root without leave.",
    confidence=0.95,
    remedies=(
        (
            "Run as another user, or set OMPI_ALLOW_RUN_AS_ROOT=1 and "
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 in the container."
        ),
    ),
    next_steps=("id -u  # in the container that runs mpirun",),
    matches=(
        "mpirun has detected an attempt to run as root.",
        "prterun has detected an attempt to run as root.",
    ),
    misses=("We strongly suggest that you run mpirun as a non-root user.",),
    outranks=("launcher-exit-code",),
)
