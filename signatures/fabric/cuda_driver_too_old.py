"""The NVIDIA driver of a host is older than its CUDA software needs.

One node that was not upgraded, or a container with a newer CUDA than the host's driver can
carry, fails at once while the other nodes wait for it in communicator set-up.

Where all ranks say so the whole cluster is behind; where some do, those hosts are.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-driver-too-old",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title="The CUDA driver on the host of {who} is too old for this software",
    when=log(
        r"CUDA Driver version found is \d+\. Minimum requirement is \d+",
        r"CUDA driver version is insufficient for CUDA runtime version",
        r"The NVIDIA driver on your system is too old",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The driver of this host cannot run the CUDA version that the job uses: its ranks fail "
        "at start and the others wait for them."
    ),
    confidence=0.9,
    remedies=(
        "Take the host out of the job, or upgrade its driver.",
        (
            "Use an image built for the driver's CUDA version, or install the CUDA "
            "compatibility package."
        ),
    ),
    next_steps=("nvidia-smi --query-gpu=driver_version --format=csv,noheader  # on every host",),
    links=("https://docs.nvidia.com/deploy/cuda-compatibility/",),
    matches=(
        (
            "node7:4711:4802 [0] misc/cudawrap.cc:188 NCCL WARN CUDA Driver version found is "
            "11040. Minimum requirement is 12000"
        ),
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        (
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old "
            "(found version 11040). Please update your GPU driver"
        ),
    ),
    misses=("node7:4711:4802 [0] NCCL INFO cudaDriverVersion 12080",),
    outranks=("launcher-exit-code",),
)
