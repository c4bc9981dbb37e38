"""A transfer over InfiniBand or RoCE ended with an uncommon error.

Length errors (1), queue-pair errors (2, 3), bad response (7), invalid request (9: sizes of the
two sides differ or a wrong key), receiver not ready (13), fatal (19) and general (21) errors.

9 suggests that the ranks disagree about the transfer; 13 that the receiving process stands
still; the others point at card, driver or firmware.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-completion-error",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="An RDMA transfer failed (status {status})",
    when=log(
        (
            r"NET/IB\w* ?: ?Got completion (?:from peer \S+ )?with (?:error |"
            r"status=)(?:IBV_WC_[A-Z_]+\()?(?P<status>1|2|3|6|7|9|13|14|15|16|17|18|19|20|21|"
            r"22)\b"
        ),
    ),
    means=(
        "A transfer between two network cards failed, so the collective it belongs to cannot "
        "finish."
    ),
    confidence=0.6,
    remedies=(
        (
            "Compare the calls of the ranks if the status is 9; look at the peer's process if "
            "it is 13."
        ),
        (
            "Otherwise check cards, cables and firmware on both hosts and take the suspect out "
            "of the job."
        ),
    ),
    next_steps=(
        "Count the peer addresses in these lines over all ranks",
        "dmesg -T | grep mlx5  # on both hosts",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with status=9 opcode=0 len=0 vendor err 138 (Send)"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with error 13, opcode 0, len 0, vendor err 135 (Send)"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with status=12 opcode=0 len=0 vendor err 129 (Send)"
        ),
    ),
    outranks=("launcher-exit-code",),
)
