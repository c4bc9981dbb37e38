"""A GPU stopped and needs a reset.

Xid 46 and 109 (time-outs of the GPU or of a context switch), 62 (power management unit halted),
54 (auxiliary power missing), 110, 143, 151, 158, 160, 161 and 167 (PCIe time-out). A few of
them, 109 most of all, can also follow from what the program does.

The pid, if given, is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-gpu-stopped",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="GPU {pci} stopped working (Xid {xid}: {meaning})",
    when=log(line_of(Blame.GPU), blames=Blames.NAMED, adds=WORDS),
    means="The GPU stopped processing. The rank on it cannot go on and the others wait for it.",
    confidence=0.85,
    remedies=(
        "NVIDIA's advice for Xid {xid}: {action}.",
        "Take the host out of the job; reset the GPU or reboot the host.",
        (
            "If it repeats on the same GPU, replace it; if it follows the job, look at the "
            "kernels it runs."
        ),
    ),
    next_steps=(
        "dmesg -T | grep Xid  # is there an earlier one on this GPU?",
        "nvidia-smi -q -i INDEX",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 109, pid=48213, name=python3, Ch 00000012, "
            "errorString CTX SWITCH TIMEOUT, Info 0x4c003"
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 62, pid='<unknown>', name=<unknown>, "
            "2098(31c4) 8511ffff 00000000"
        ),
    ),
    misses=("[12345.67] NVRM: Xid (PCI:0000:1b:00): 43, pid=48213, name=python3, Ch 00000010",),
    outranks=(
        "ras-process-missing",
        "gpu-requires-reset",
        "gpu-err-in-nvidia-smi",
        "cuda-launch-failure",
        "cuda-unknown-error",
        "gpu-unreadable",
        "gpu-to-be-reset",
        "gpu-never-launched",
        "gpus-spin-together",
        "launcher-exit-code",
    ),
)
