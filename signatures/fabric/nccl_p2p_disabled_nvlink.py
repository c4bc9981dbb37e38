"""Two GPUs are joined by NVLink but the driver forbids peer access.

NCCL stops and says that it is probably a hardware issue. Also seen when the Fabric Manager has
not set the NVSwitch fabric up (fabric UUID zero), after a GPU reset, or when a container hides
part of the fabric.

The numbers are GPU indices of that host, not ranks.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-p2p-disabled-nvlink",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="NVLink between GPU {one} and GPU {other} of a host does not work",
    when=log(
        r"P2P is disabled between NVLINK connected GPUs (?P<one>\d+) and (?P<other>\d+)",
    ),
    means=(
        "The NVLink connection of two GPUs is out of order, so NCCL refuses to use them together."
    ),
    confidence=0.9,
    remedies=(
        "Take the host out of the job.",
        (
            "Restart nvidia-fabricmanager (and nvidia-imex on NVL72) with no job running, or "
            "reboot; replace the board if it stays."
        ),
    ),
    next_steps=(
        "nvidia-smi nvlink -s; nvidia-smi topo -p2p r",
        "nvidia-smi -q | grep -A4 Fabric",
        "dmesg -T | grep -E 'Xid|SXid'",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] graph/paths.cc:290 NCCL WARN P2P is disabled between NVLINK "
            "connected GPUs 5 and 4. This should not be the case given their connectivity, and "
            "is probably due to a hardware issue."
        ),
        "P2P is disabled between NVLINK connected GPUs 1 and 0.",
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You "
            "can repress this message with NCCL_IGNORE_DISABLED_P2P=1."
        ),
    ),
    outranks=("launcher-exit-code",),
)
