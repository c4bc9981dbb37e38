"""NCCL calls are captured in a CUDA graph and the driver cannot do it.

Capture needs a recent driver and runtime; on hosts with an older one the capture fails while
the others go on and wait in the first replay.

Compare the driver versions of the hosts.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-graph-capture-driver",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title="The driver is too old for NCCL inside CUDA graphs",
    when=log(
        r"NCCL cannot be captured in a graph if",
        blames=Blames.SPEAKER,
    ),
    means="Collectives cannot be captured in CUDA graphs with this driver.",
    confidence=0.85,
    remedies=(
        (
            "Upgrade the driver of these hosts, or run without CUDA graphs (enforce_eager, "
            "mode without cudagraphs)."
        ),
    ),
    next_steps=("nvidia-smi --query-gpu=driver_version --format=csv,noheader  # on every host",),
    matches=(
        (
            "node3:99:140 [1] misc/strongstream.cc:30 NCCL WARN NCCL cannot be captured in a "
            "graph if either it wasn't built with CUDA runtime >= 11.3 or if the installed "
            "CUDA driver < R465."
        ),
        "NCCL cannot be captured in a graph if the installed CUDA driver < R465.",
    ),
    misses=("node3:99:140 [1] NCCL INFO NCCL_GRAPH_MIXING_SUPPORT set by environment to 0.",),
    outranks=("launcher-exit-code",),
)
