"""Driver library and kernel module have different versions.

The driver package was updated while the old kernel module stayed loaded (unattended upgrades do
that), or a container carries its own driver library. NVML fails, then NCCL's set-up and new
CUDA programs; jobs that run already may go on.

A reboot of the host mends it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nvml-driver-mismatch",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title="The NVIDIA driver of {who}'s host was changed under the running system",
    when=log(
        r"Driver/library version mismatch",
        r"unsupported display driver / cuda driver combination",
        r"NVRM: API mismatch: the client has the version",
        blames=Blames.SPEAKER,
    ),
    means="The driver on this host is half updated. New processes there cannot use the GPUs.",
    confidence=0.95,
    remedies=(
        "Drain the host and reboot it (or unload and reload the nvidia modules).",
        "Keep the driver out of unattended upgrades.",
    ),
    next_steps=(
        "cat /proc/driver/nvidia/version; modinfo nvidia | grep ^version",
        "grep nvidia /var/log/apt/history.log",
    ),
    matches=(
        "Failed to initialize NVML: Driver/library version mismatch",
        (
            "node3:99:140 [1] misc/nvmlwrap.cc:120 NCCL WARN nvmlInit_v2() failed: "
            "Driver/library version mismatch"
        ),
        "RuntimeError: CUDA error: system has unsupported display driver / cuda driver combination",
        "[ 8811.7] NVRM: API mismatch: the client has the version 570.86.10, but",
    ),
    misses=("NVIDIA-SMI 570.86.10   Driver Version: 570.86.10   CUDA Version: 12.8",),
    outranks=("launcher-exit-code",),
)
