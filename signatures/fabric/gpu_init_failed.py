"""The kernel driver failed to bring a GPU up.

RmInitAdapter failed: the firmware does not start, the GPU hangs from an earlier error, or the
device is unreachable. nvidia-smi then misses that GPU.

It is an event of the host; ranks that need that GPU cannot start.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gpu-init-failed",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The driver could not initialise GPU {pci}",
    when=log(
        r"NVRM: GPU (?P<pci>[0-9a-fA-F:.]+): (?:RmInitAdapter failed|rm_init_adapter failed)",
    ),
    means="A GPU of this host cannot be started by the driver.",
    confidence=0.85,
    remedies=(
        "Take the host out of the job and power-cycle it; replace the GPU if it comes back.",
    ),
    next_steps=("dmesg -T | grep NVRM; nvidia-smi -L  # which index is missing?",),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "[  812.001] NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x62:0x40:2477)",
        (
            "Jul  1 13:06:53 node7 kernel: NVRM: GPU 0000:1b:00.0: rm_init_adapter failed, "
            "device minor number 3"
        ),
    ),
    misses=(
        (
            "[   93.31] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.126.20  "
            "Release Build"
        ),
    ),
    outranks=("launcher-exit-code",),
)
