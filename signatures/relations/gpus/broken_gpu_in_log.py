"""Lines say that a GPU is broken; where its state is read as well, that says which it is."""

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Signature

LOST_LINES = (
    r"GPU is lost",
    r"Unable to determine the device handle for (?:GPU|gpu)",
    r"NVRM: fallen off the bus and is not responding to commands",
)
ERR_LINES = (
    r"\|[^|]*\bERR!",
    r",\s*\[Unknown Error\]",
)
RESET_LINES = (
    r"GPU requires reset",
    r"[Rr]ecovery [Aa]ction\s*:\s*(?:GPU )?(?:Reset|Reboot|Drain)",
    r"<gpu_recovery_action>(?:Reset|Reboot|Drain)",
    r"GPU recovery action changed from .* to 0x\w+ \((?:GPU Reset|Node Reboot|Drain)",
)


LOST = Signature(
    id="gpu-lost",
    story="""\
The driver no longer reaches a GPU.

nvidia-smi or NVML says that the GPU is lost or that its handle cannot be determined: it fell
off the PCIe bus (Xid 79) because of power, heat, a riser or the board. A driver that finds it
gone while it loads says so over three lines of the kernel log, without an Xid. New CUDA
processes may fail on all GPUs of the host, while running ones on the others go on.

The rank that used the GPU hangs or dies; the bus id in the line tells which it was.
""",
    category="gpu-fell-off-bus",
    level="machine",
    title="A GPU is lost",
    when=lambda case: (
        () if queries.faulty_gpus(case, "lost") else queries.logged(case, *LOST_LINES)
    ),
    patterns=LOST_LINES,
    means=(
        "A GPU of this host does not answer any more. The rank on it cannot go on and every "
        "other rank waits for it."
    ),
    confidence="strong",
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
)

ERR = Signature(
    id="gpu-err-in-nvidia-smi",
    story="""\
A field of the nvidia-smi table reads ERR!.

The driver cannot read fan, temperature, power or load of that GPU: it is hanging, lost or needs
a reset (Xid 79, 119, 74). Fan sensors alone may fail on a GPU that otherwise works.

The table does not say which rank used it; the process list may, by pid.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="nvidia-smi shows ERR! for a GPU",
    when=lambda case: (
        () if queries.faulty_gpus(case, "unreadable") else queries.logged(case, *ERR_LINES)
    ),
    patterns=ERR_LINES,
    means="The driver cannot read a GPU of this host: it is probably hung or lost.",
    confidence="likely",
    remedies=("Take the host out of the job; reset the GPU or reboot the host.",),
    next_steps=(
        "dmesg -T | grep -E 'NVRM|Xid'  # on that host",
        "nvidia-smi -q -i INDEX",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "|ERR!  ERR! ERR!    ERR! / ERR! |  23028MiB / 24576MiB |    ERR!      Default |",
        (
            "| N/A   ERR!   P0           ERR!  / 700W |   65710MiB / 143771MiB |    100%      "
            "Default |"
        ),
        "1, GPU-1a2b3c, [Unknown Error], [Unknown Error]",
    ),
    misses=(
        "npm ERR! code ELIFECYCLE",
        (
            "| N/A   33C    P0            118W /  700W |   65710MiB / 143771MiB |    100%      "
            "Default |"
        ),
    ),
)

REQUIRES_RESET = Signature(
    id="gpu-requires-reset",
    story="""\
nvidia-smi shows that a GPU must be reset before it can be used.

An uncorrectable error or a firmware fault has stopped it; every field reads "GPU requires
reset", or its recovery action is Reset, Reboot or Drain.

The kernel log holds the Xid that led to it.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="A GPU needs a reset",
    when=lambda case: (
        () if queries.faulty_gpus(case, "to-be-reset") else queries.logged(case, *RESET_LINES)
    ),
    patterns=RESET_LINES,
    means="A GPU of this host stopped after an error and does no work until it is reset.",
    confidence="likely",
    remedies=(
        (
            "Take the host out of the job; with no process on the GPU run nvidia-smi "
            "--gpu-reset -i INDEX, or reboot."
        ),
    ),
    next_steps=(
        "dmesg -T | grep Xid  # on that host",
        "nvidia-smi -q -i INDEX",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "0, GPU-5d5ba0d6, [GPU requires reset], [GPU requires reset]",
        "    GPU Recovery Action                   : Reset",
        "<gpu_recovery_action>Drain and Reset</gpu_recovery_action>",
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 "
            "(None) to 0x1 (GPU Reset Required)"
        ),
    ),
    misses=(
        "    GPU Recovery Action                   : None",
        "<gpu_recovery_action>None</gpu_recovery_action>",
    ),
)

SIGNATURES = (LOST, ERR, REQUIRES_RESET)
