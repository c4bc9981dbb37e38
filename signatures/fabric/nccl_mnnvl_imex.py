"""Multi-node NVLink is available but not usable.

GPUs of several hosts form one NVLink domain (NVL72), which needs the IMEX service and an IMEX
channel that the job's user may open. The channel device is missing in the container, or the
IMEX daemons of the hosts do not see each other.

NCCL_MNNVL_ENABLE=0 falls back to the network.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-mnnvl-imex",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="Multi-node NVLink is there but does not work (IMEX)",
    when=log(
        r"MNNVL \(cliqueSize \d+\) is available but not working on this system",
    ),
    means=(
        "NVLink across hosts is configured, but memory cannot be exported between them, "
        "because of IMEX."
    ),
    confidence=0.9,
    remedies=(
        (
            "Create the IMEX channel (/dev/nvidia-caps-imex-channels/channel0) and pass it "
            "into the container; in Kubernetes use ComputeDomains of the DRA driver."
        ),
        "Restart nvidia-imex on all hosts of the domain.",
        "NCCL_MNNVL_ENABLE=0 to get going.",
    ),
    next_steps=(
        "Run again with NCCL_MNNVL_ENABLE=0: it works if this is it.",
        "nvidia-imex-ctl -N  # on every host",
        "ls -l /dev/nvidia-caps-imex-channels  # inside the container",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [1] mnnvl.cc:70 NCCL WARN MNNVL (cliqueSize 16) is available but not "
            "working on this system. Check the IMEX channel configuration "
            "(/dev/nvidia-caps-imex-channels). Set NCCL_MNNVL_ENABLE=0 to ignore this issue."
        ),
        (
            "MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX "
            "domain configuration (nvidia-imex-ctl -N)."
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO MNNVL busId 0x1b000 fabric UUID 0.0 cliqueId 0x0 state "
            "3 healthMask 0x0"
        ),
    ),
    outranks=("launcher-exit-code",),
)
