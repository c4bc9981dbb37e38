"""Xid 79: the GPU no longer answers on PCIe.

Power, heat, a riser or connector, or the board itself. Every CUDA call of the process on it
blocks or fails; the collective never ends and the other ranks time out. Other Xids of the same
GPU in the same second (45, 119, 154) are effects.

The pid in the line is of the host's namespace and may be missing.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import Blame, line_of

SIGNATURE = Signature(
    id="xid-fell-off-bus",
    category="gpu-fell-off-bus",
    kind=Kind.CAUSE,
    title="GPU {pci} has fallen off the bus",
    when=log(
        line_of(Blame.BUS),
        r"NVIDIA GPU (?P<pci>[0-9a-fA-F:.]+).*has fallen off the bus",
        r"GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has fallen off the bus",
        blames=Blames.NAMED,
    ),
    means=(
        "A GPU dropped off the PCIe bus. The rank that used it cannot go on and all others "
        "wait for it."
    ),
    confidence=0.97,
    remedies=(
        "Take the host out of the job and restart from the last checkpoint.",
        (
            "Power-cycle the host; check power, cooling and seating; replace the board if it "
            "comes back."
        ),
    ),
    next_steps=(
        "nvidia-smi -L  # on that host: which index is missing?",
        "dmesg -T | grep -E 'AER|pcieport'  # just before the Xid",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.678901] NVRM: Xid (PCI:0000:1b:00): 79, pid=48213, name=python3, GPU has "
            "fallen off the bus."
        ),
        (
            "[Tue Jul  1 13:06:53 2026] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', "
            "name=<unknown>, GPU has fallen off the bus."
        ),
        (
            "Jul  1 13:06:53 node7 kernel: NVRM: The NVIDIA GPU 0000:1b:00.0 (PCI ID: "
            "10de:2330) has fallen off the bus and is not responding to commands."
        ),
        "[12345.678901] NVRM: GPU at PCI:0000:1b:00.0 has fallen off the bus.",
    ),
    misses=("[12345.678901] NVRM: Xid (PCI:0000:1b:00): 45, pid=48213, name=python3, Ch 00000010",),
    outranks=(
        "ras-process-missing",
        "xid-gsp",
        "gpu-lost",
        "gpu-err-in-nvidia-smi",
        "gpu-requires-reset",
        "cuda-unknown-error",
        "cuda-launch-failure",
        "gpu-out-of-reach",
        "gpu-unreadable",
        "gpu-to-be-reset",
        "gpu-driver-hangs",
        "gpu-never-launched",
        "gpus-spin-together",
        "launcher-exit-code",
    ),
)
