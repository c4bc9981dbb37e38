"""RDMA needs locked memory and the limit is too low.

Registering buffers or creating queues fails with "Cannot allocate memory". The locked-memory
limit is per process and differs between login shells, batch systems, ssh sessions and
containers, so that often one launch method or one host fails.

The rank fails in connection set-up; its peers wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-memlock",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="{who} may not lock enough memory for InfiniBand",
    when=log(
        (
            r"Call to ibv_(?:reg_mr|reg_mr_iova2?|create_cq|create_qp|create_srq|alloc_pd)\w* "
            r"failed.*(?:Cannot allocate memory|No space left on device)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "This process hit its limit for locked memory (or the card's for queues), so RDMA "
        "cannot be set up."
    ),
    confidence=0.9,
    remedies=(
        (
            "ulimit -l unlimited before the job starts (memlock in limits.conf, LimitMEMLOCK "
            "for slurmd and containerd, --ulimit memlock=-1 for docker)."
        ),
    ),
    next_steps=("grep 'locked memory' /proc/PID/limits  # of a failing and of a working rank",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Cannot allocate memory"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:170 NCCL WARN Call to ibv_create_cq failed with "
            "error Cannot allocate memory"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:165 NCCL WARN Call to ibv_reg_mr_iova2 failed "
            "with error Cannot allocate memory"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Bad address"
        ),
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)
