"""NCCL could not bind multicast memory over NVSwitch.

The Fabric Manager or the NVSwitches are not in order: the service is down or was restarted
under running jobs, its version differs from the driver's, or multicast resources are used up by
dead jobs.

NCCL_NVLS_ENABLE=0 gets going and proves it. Without a message the same fault hangs after the
last line "NVLS Bind mem".
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-nvls-bind",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="NVLink SHARP (NVLS) memory could not be bound",
    when=log(
        r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory",
        r"system or configuration error in the Fabric Manager or NVSwitches",
        r"transport/nvls\.cc:\d+ NCCL WARN Cuda failure 401 '",
    ),
    means=(
        "The NVSwitch fabric of this host refuses multicast memory, so NCCL cannot set up "
        "NVLink SHARP."
    ),
    confidence=0.9,
    remedies=(
        "NCCL_NVLS_ENABLE=0 to get going.",
        (
            "With no job running: restart nvidia-fabricmanager (same version as the driver) "
            "and reset the GPUs, or reboot the host."
        ),
    ),
    next_steps=(
        "Run again with NCCL_NVLS_ENABLE=0: it works if this is it.",
        "systemctl status nvidia-fabricmanager; tail /var/log/fabricmanager.log",
        "nvidia-smi -q | grep -A4 Fabric",
    ),
    links=(
        "https://github.com/NVIDIA/nccl/issues/1562",
        "https://github.com/NVIDIA/nccl-tests/issues/216",
    ),
    matches=(
        (
            "node3:99:140 [1] transport/nvls.cc:254 NCCL WARN Failed to bind NVLink SHARP "
            "(NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be "
            "performed in the present state'."
        ),
        (
            "This is usually caused by a system or configuration error in the Fabric Manager "
            "or NVSwitches."
        ),
        (
            "node3:99:140 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation "
            "cannot be performed in the present state'"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO NVLS multicast support is available on dev 0",),
    outranks=("launcher-exit-code",),
)
