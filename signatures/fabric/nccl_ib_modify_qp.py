"""A queue pair could not be moved to the connected state.

With RoCE a time-out (110) means that the peer's GID cannot be resolved or routed: wrong
NCCL_IB_GID_INDEX, another VLAN or subnet, a card that is not cabled to the same fabric. Invalid
argument (22) means that the two ends do not fit: different link types, MTU or GID types.

Both ends are candidates, so nobody is blamed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-modify-qp",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="InfiniBand connections cannot be brought up (ibv_modify_qp failed)",
    when=log(
        r"Call to ibv_modify_qp failed",
        r"ibv_modify_qp failed \(errno",
        r"[Ff]ailed to modify QP (?:\w+ )?to (?:INIT|RTR|RTS)\b",
    ),
    means=(
        "Two cards could not be connected: their addresses, subnets or link types do not fit "
        "together."
    ),
    confidence=0.85,
    remedies=(
        "Set NCCL_IB_GID_INDEX to the RoCE v2 GID of the right subnet, the same on all hosts.",
        "Choose cards of one fabric with NCCL_IB_HCA; check VLAN and MTU.",
        "NCCL_IB_DISABLE=1 proves it.",
    ),
    next_steps=(
        "show_gids  # on both hosts",
        "ib_write_bw -d CARD -x INDEX  # on one host; on the other with its name",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-ib-gid-index",),
    matches=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with "
            "error Connection timed out"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:230 NCCL WARN Call to ibv_modify_qp failed with "
            "110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local "
            "GID index 3"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:230 NCCL WARN Call to ibv_modify_qp failed with "
            "22 Invalid argument, on dev mlx5_2:1"
        ),
        "Failed to modify QP to RTR: Connection timed out",
        "ibv_modify_qp failed (errno 19) (Ib failure: No such device)",
    ),
    misses=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_reg_mr failed with "
            "error Cannot allocate memory"
        ),
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)
