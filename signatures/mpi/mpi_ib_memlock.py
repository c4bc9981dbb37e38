"""The locked-memory limit is too low for RDMA.

The limit of the batch system's daemon or of the container applies, not the one of a login
shell. Often one node or one way of starting is different.

The process falls back to another network or fails, and its peers wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-ib-memlock",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="MPI may not lock enough memory for InfiniBand",
    when=log(
        r"OpenFabrics \(openib\) BTL failed to initialize while trying to",
        r"UCX +ERROR +ibv_(?:reg_mr|create_cq|create_qp)\w*\(.*failed: Cannot allocate memory",
        r"failed: Cannot allocate memory : Please set max locked memory",
        blames=Blames.SPEAKER,
    ),
    means="This host does not let the job lock the memory that RDMA needs.",
    confidence=0.8,
    remedies=(
        (
            "ulimit -l unlimited for the daemon that starts the ranks (limits.conf, "
            "LimitMEMLOCK of slurmd or containerd, --ulimit memlock=-1)."
        ),
    ),
    next_steps=("grep 'locked memory' /proc/PID/limits  # on a failing and on a working node",),
    matches=(
        "The OpenFabrics (openib) BTL failed to initialize while trying to",
        (
            "[1714000000.12] [n0042:20133:0]  ib_md.c:379  UCX  ERROR ibv_reg_mr(address=0x7f, "
            "length=4096) failed: Cannot allocate memory : Please set max locked memory "
            "(ulimit -l) to 'unlimited'"
        ),
    ),
    misses=("WARNING: There was an error initializing an OpenFabrics device.",),
    outranks=("launcher-exit-code",),
)
