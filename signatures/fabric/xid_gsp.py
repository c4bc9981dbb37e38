"""The GPU's system processor (GSP) timed out or failed.

Every CUDA call on that GPU and even nvidia-smi then blocks, often in uninterruptible sleep: a
hang with no error in the job's log. Driver bugs are frequent; a GPU that fell off the bus shows
it too.

The pid in the line made the call that was not answered; it is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-gsp",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The firmware of GPU {pci} does not answer (Xid {xid})",
    when=log(line_of(Blame.FIRMWARE), blames=Blames.NAMED, adds=WORDS),
    means=(
        "The firmware of this GPU hangs, so the process on it blocks in the driver and the "
        "other ranks wait for it."
    ),
    confidence=0.92,
    remedies=(
        "NVIDIA's advice for Xid {xid}: {action}.",
        (
            "Take the host out of the job; reset the GPU, or reboot the host if processes "
            "cannot be killed."
        ),
        (
            "If it repeats: upgrade the driver, or disable GSP firmware where the driver "
            "allows it (NVreg_EnableGpuFirmware=0)."
        ),
    ),
    next_steps=(
        "timeout 10 nvidia-smi  # on that host: it blocks too",
        "ps -eo pid,stat,wchan:30,cmd | grep ' D'",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 119, pid=48213, name=python3, Timeout "
            "after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 "
            "(GSP_RM_CONTROL) (0x20801702 0x4)."
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 120, pid='<unknown>', name=<unknown>, GSP "
            "task timeout @ pc:0x1c7b8c4, task: 1"
        ),
    ),
    misses=("[12345.67] NVRM: Xid (PCI:0000:1b:00): 121, C2C Link corrected error",),
    outranks=(
        "ras-process-missing",
        "gpu-requires-reset",
        "gpu-err-in-nvidia-smi",
        "cuda-unknown-error",
        "hung-task",
        "kernel-hung-task-nvidia",
        "gpu-unreadable",
        "gpu-to-be-reset",
        "gpu-driver-hangs",
        "gpu-never-launched",
        "gpus-spin-together",
        "launcher-exit-code",
    ),
)
