"""NVML cannot be initialised: "Unknown Error".

Typical of a container that lost its device rights: systemd (daemon-reload) rewrote the cgroup
of a container started with the older NVIDIA runtime. Processes that hold the GPU go on, new
ones fail, so it shows at the next restart or in a new worker.

On the host itself nvidia-smi works; if it does not, the GPU or driver is at fault.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nvml-unknown-error",
    category="gpu-fell-off-bus",
    kind=Kind.CAUSE,
    title="A container lost its access to the GPUs",
    when=log(
        (
            r"Failed to initialize NVML: (?:Unknown Error|Insufficient Permissions|GPU access "
            r"blocked by the operating system)"
        ),
    ),
    means="New processes in this container cannot reach the GPUs any more.",
    confidence=0.8,
    remedies=(
        "Restart the container or pod.",
        (
            "Use the CDI mode of the NVIDIA container toolkit, or the cgroupfs driver, or pass "
            "the device nodes explicitly."
        ),
    ),
    next_steps=(
        "nvidia-smi  # on the host and in the container",
        "dmesg -T | grep -E 'NVRM|Xid'",
    ),
    links=("https://github.com/NVIDIA/nvidia-container-toolkit/issues/48",),
    matches=(
        "Failed to initialize NVML: Unknown Error",
        "Failed to initialize NVML: Insufficient Permissions",
    ),
    misses=("Failed to initialize NVML: Driver/library version mismatch",),
    outranks=("launcher-exit-code",),
)
