"""Ranks went silent while NCCL set up multicast in the NVSwitches (NVLS).

The last lines speak of NVLS: memory of all GPUs of the host is bound to a multicast group. The
Fabric Manager has to have set the switches up; where it is down, of another version or was
restarted under jobs, the call does not come back.

With NVLS off the same job starts: that proves it.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-nvls",
    category="nvlink-error",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL hangs while it sets up NVLink multicast (NVLS)",
    when=nccl_start("connecting", via="NVLS"),
    means=(
        "The last lines of the ranks tell of multicast memory in the NVSwitches. It is not bound."
    ),
    confidence="possible",
    remedies=(
        "Restart the Fabric Manager with no job on the host, or reset its GPUs.",
        "Until then run with NCCL_NVLS_ENABLE=0.",
    ),
    next_steps=(
        "Run again with NCCL_NVLS_ENABLE=0: it starts if this is it.",
        "systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A4 Fabric",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    gives_way=True,
    explains=("stuck-together",),
)
