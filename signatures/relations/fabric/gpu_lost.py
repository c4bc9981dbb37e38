"""The driver no longer reaches a GPU.

nvidia-smi or NVML says that the GPU is lost or that its handle cannot be determined: it fell
off the PCIe bus (Xid 79) because of power, heat, a riser or the board. A driver that finds it
gone while it loads says so over three lines of the kernel log, without an Xid. New CUDA
processes may fail on all GPUs of the host, while running ones on the others go on.

The rank that used the GPU hangs or dies; the bus id in the line tells which it was.
"""

from whyhang.analyzer.match.gpu import Fault, faulty
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gpu-lost",
    category="gpu-fell-off-bus",
    kind=Kind.CAUSE,
    level="machine",
    title="A GPU is lost",
    when=log(
        r"GPU is lost",
        r"Unable to determine the device handle for (?:GPU|gpu)",
        r"NVRM: fallen off the bus and is not responding to commands",
    ),
    unless=faulty(Fault.LOST),  # where the state is read, it says which GPU
    means=(
        "A GPU of this host does not answer any more. The rank on it cannot go on and every "
        "other rank waits for it."
    ),
    confidence="certain",
    remedies=(
        "Take the host out of the job and restart from the last checkpoint.",
        (
            "Power-cycle the host (a warm reboot may not be enough); check power, cooling, "
            "seating; replace the board if it comes back."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -E 'Xid|fallen off'  # on that host",
        "nvidia-smi -L  # which index is missing?",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error",
        (
            "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  Reboot "
            "the system to recover this GPU"
        ),
        (
            "node3:99:140 [1] misc/nvmlwrap.cc:140 NCCL WARN nvmlDeviceGetHandleByIndex(3) "
            "failed: GPU is lost"
        ),
        "pynvml.nvml.NVMLError_GpuIsLost: GPU is lost",
        "               NVRM: fallen off the bus and is not responding to commands.",
    ),
    misses=("|   0  NVIDIA H200     On  |   00000000:1B:00.0 Off |                    0 |",),
    explains=(
        "cuda-unknown-error",
        "launcher-exit-code",
    ),
)
