"""An uncorrectable memory error of a GPU.

Xid 48 (double-bit), 94 (contained: only the process that touched it dies), 95 (uncontained: all
processes on the GPU), 64 and 157 (a bad row could not be remapped), 140, 171 and 172. The
process on the GPU dies; the other ranks lose a peer.

The pid in the line is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-ecc",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="The memory of GPU {pci} has uncorrectable errors (Xid {xid}: {meaning})",
    when=log(line_of(Blame.MEMORY), blames=Blames.NAMED, adds=WORDS),
    means=(
        "The GPU's memory is defective. The process that used it was stopped, and every other "
        "rank waits for it."
    ),
    confidence=0.93,
    remedies=(
        "NVIDIA's advice for Xid {xid}: {action}.",
        "Take the GPU (or host) out of the job and restart from the last checkpoint.",
        (
            "Reset the GPU with no job running, so that the row is remapped; replace it for "
            "Xid 64 or 157, or when errors return."
        ),
    ),
    next_steps=(
        (
            "nvidia-smi "
            "--query-remapped-rows=gpu_uuid,remapped_rows.pending,remapped_rows.failure "
            "--format=csv"
        ),
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 48, pid='<unknown>', name=<unknown>, An "
            "uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer "
            "at physical address 0x1a2b"
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 94, pid=48213, name=python3, Contained: SM "
            "(0x1). RST: No, D-RST: No"
        ),
        (
            "[Tue Jul  1 13:06:53 2026] NVRM: Xid (PCI:0000:1b:00): 95, pid=48213, "
            "name=python3, Uncontained: FBHUB"
        ),
    ),
    misses=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 63, pid=48213, name=python3, Row Remapper: "
            "New row marked for remapping"
        ),
    ),
    outranks=(
        "ras-process-missing",
        "cuda-illegal-access",
        "cuda-launch-failure",
        "cuda-unknown-error",
        "gpu-requires-reset",
        "gpu-ecc-uncorrected",
        "gpu-to-be-reset",
        "gpu-unreadable",
        "gpu-memory-repair",
        "gpu-never-launched",
        "gpus-spin-together",
        "launcher-exit-code",
    ),
)
