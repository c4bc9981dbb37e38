"""NCCL asks the driver about a GPU and gets no answer.

``nvmlDeviceGetHandleByIndex(3) failed: Unknown Error`` while a communicator is set up: the
driver lists a GPU that it cannot reach, or the container has lost its right to the device.
This rank ends its set-up with an error and the others wait for it.

"Driver/library version mismatch" and "GPU is lost" are faults of their own, with their own
signatures.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nvml-device-unreachable",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The driver cannot reach a GPU that NCCL on {who} asks for",
    when=log(
        (
            r"nvml(?:Device|System|Init)\w*\([^)]*\) failed: (?:Unknown Error|Not Found|Timeout|"
            r"Invalid Argument|Insufficient Permissions|Insufficient External Power|No Permission)"
        ),
        blames=Blames.SPEAKER,
    ),
    means="A question to the driver failed on this rank's host, so NCCL could not be set up.",
    confidence=0.6,
    remedies=(
        "Check with nvidia-smi whether each GPU of that host answers; reset it or take it out.",
        "If it answers on the host and not in the container, restart the container.",
    ),
    next_steps=(
        "nvidia-smi -L  # on the host and in the container",
        "dmesg -T | grep -E 'NVRM|Xid'  # on that host",
    ),
    links=("https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",),
    matches=(
        (
            "node3:99:140 [1] misc/nvmlwrap.cc:140 NCCL WARN nvmlDeviceGetHandleByIndex(3) "
            "failed: Unknown Error"
        ),
        "node3:99:140 [1] misc/nvmlwrap.cc:90 NCCL WARN nvmlInit_v2() failed: Unknown Error",
    ),
    misses=(
        (
            "node3:99:140 [1] misc/nvmlwrap.cc:90 NCCL WARN nvmlInit_v2() failed: "
            "Driver/library version mismatch"
        ),
    ),
    outranks=("launcher-exit-code",),
)
