"""GPUs that cannot reach each other directly, and need not.

Consumer cards, virtual machines and GPUs on different CPU sockets have no peer-to-peer; NCCL
copies through host memory. Printed at INFO level in healthy jobs.

Between GPUs that are joined by NVLink it would be a WARN and a fault (nccl-p2p-disabled-
nvlink).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-p2p-unavailable",
    category="healthy",
    kind=Kind.NOISE,
    title="GPUs without peer-to-peer access",
    when=log(
        r"Could not enable P2P between dev \d+",
        r"peer query failed between dev \d+",
        r"P2P is disabled between connected GPUs",
        r"Setting NCCL_P2P_LEVEL .* ignored",
    ),
    means="NCCL uses host memory between these GPUs.",
    confidence=0.9,
    matches=(
        "node3:99:140 [1] NCCL INFO Could not enable P2P between dev 0(=1b000) and dev 1(=43000)",
        (
            "node3:99:140 [1] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You "
            "can repress this message with NCCL_IGNORE_DISABLED_P2P=1."
        ),
        "node3:99:140 [1] NCCL INFO peer query failed between dev 0(=1b000) and dev 1(=43000)",
        "node3:99:140 [1] NCCL INFO Setting NCCL_P2P_LEVEL to LOC was ignored",
    ),
    misses=(
        (
            "node3:99:140 [1] graph/paths.cc:290 NCCL WARN P2P is disabled between NVLINK "
            "connected GPUs 5 and 4."
        ),
    ),
)
