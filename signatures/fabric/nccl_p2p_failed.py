"""Peer-to-peer or IPC access between two GPUs failed.

The ranks run in different containers or PID namespaces, a MIG slice or virtual GPU does not
allow it, the GPUs have no common path, or memory from expandable segments was to be shared by
an older NCCL.

NCCL_P2P_DISABLE=1 proves it; the transfer then goes through host memory.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-p2p-failed",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="GPUs of one host cannot share memory with each other",
    when=log(
        r"failed to peer with device \d+",
        r"cudaIpc(?:GetMemHandle|OpenMemHandle) failed",
        r"peer access is not supported between these two devices",
        (
            r"Cuda failure (?:\d+ )?'(?:invalid device context|peer access (?:has not been "
            r"enabled|is not supported)[^']*|mapping of buffer object failed)'"
        ),
    ),
    means=(
        "Direct access between two GPUs of this host was refused, so NCCL could not connect them."
    ),
    confidence=0.85,
    remedies=(
        "NCCL_P2P_DISABLE=1 to get going (slower).",
        "Run the ranks of a host in one container with --ipc=host and one PID namespace.",
        "Upgrade NCCL and torch, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False.",
    ),
    next_steps=(
        "Run again with NCCL_P2P_DISABLE=1: it works if this is it.",
        "nvidia-smi topo -p2p r; nvidia-smi topo -m",
        "Run p2pBandwidthLatencyTest (CUDA samples) on that host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] transport/p2p.cc:275 NCCL WARN failed to peer with device "
            "1(=43000): 217 peer access is not supported between these two devices"
        ),
        (
            "node3:99:140 [1] transport/p2p.cc:240 NCCL WARN cudaIpcGetMemHandle failed : "
            "invalid argument"
        ),
        (
            "node3:99:140 [1] transport/p2p.cc:302 NCCL WARN Cuda failure 'peer access is not "
            "supported between these two devices'"
        ),
    ),
    misses=(
        "node3:99:140 [1] NCCL INFO Could not enable P2P between dev 0(=1b000) and dev 1(=43000)",
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)
