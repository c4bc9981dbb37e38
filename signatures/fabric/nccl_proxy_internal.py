"""NCCL's proxy lost track of its own operations.

Its lists are inconsistent or its pool is used up: a bug of this NCCL version, far too many
operations in flight, or memory overwritten by something else. "Too many connections" means that
more local ranks connect than the host has.

The rank that prints it stops making progress and the others wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-proxy-internal",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="NCCL's proxy broke down on {who}",
    when=log(
        r"Proxy append out of bounds",
        r"NCCL WARN List loop at element",
        r"Proxy append on running operation",
        r"\[Proxy [Ss]ervice\] Too many connections \(\d+ max\)",
        blames=Blames.SPEAKER,
    ),
    means=(
        "An internal check of NCCL failed on this rank; its network operations no longer progress."
    ),
    confidence=0.8,
    remedies=(
        "Upgrade NCCL (NCCL bug reports about the proxy pool name the fixed versions).",
        "Issue fewer point-to-point operations at a time, or synchronise between batches of them.",
    ),
    next_steps=(
        "py-spy dump --native --pid PID  # of this rank: ncclLocalOpAppend means a full proxy pool",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/2353",),
    matches=(
        "node3:99:140 [1] proxy.cc:410 NCCL WARN Proxy append out of bounds",
        "node3:99:140 [1] proxy.cc:1440 NCCL WARN [Proxy service] Too many connections (8 max)",
        "node3:99:140 [1] proxy.cc:120 NCCL WARN List loop at element 12",
        "node3:99:140 [1] proxy.cc:420 NCCL WARN Proxy append on running operation",
    ),
    misses=("node3:99:140 [1] NCCL INFO [Proxy Service] Device 1 CPU core 12",),
    outranks=("launcher-exit-code",),
)
