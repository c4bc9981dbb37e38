"""CUDA error 802, "system not yet initialized".

On NVSwitch machines (HGX, DGX) CUDA works only after the Fabric Manager has set up the fabric.
The service is not running, of another version than the driver, failed over a bad link, or is
still busy after a boot.

The ranks of that host fail at once and all others wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-fabric-not-ready",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="CUDA cannot start on {who}'s host: the NVSwitch fabric is not initialised",
    when=log(
        r"(?:CUDA error: |Cuda failure (?:802 )?'|Error 802: )system not yet initialized",
        r"cudaErrorSystemNotReady",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The Fabric Manager of this host has not brought up NVSwitch, so no CUDA program can "
        "start there."
    ),
    confidence=0.93,
    remedies=(
        (
            "Start nvidia-fabricmanager (of exactly the driver's version) on that host, and "
            "enable it at boot."
        ),
        "If it fails, its log names the link or switch: take the host out.",
    ),
    next_steps=(
        "systemctl status nvidia-fabricmanager",
        "nvidia-smi -q | grep -A4 Fabric",
    ),
    links=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
    matches=(
        "RuntimeError: CUDA error: system not yet initialized",
        (
            "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). "
            "Error 802: system not yet initialized (Triggered internally at "
            "c10/cuda/CUDAFunctions.cpp:109.)"
        ),
        "node3:99:140 [1] init.cc:300 NCCL WARN Cuda failure 802 'system not yet initialized'",
        "torch.AcceleratorError: CUDA error: cudaErrorSystemNotReady",
    ),
    misses=(
        (
            "RuntimeError: Default process group has not been initialized, please make sure to "
            "call init_process_group."
        ),
    ),
    outranks=("launcher-exit-code",),
)
