"""A program's own kernel faulted on the GPU.

Xid 13 (an exception of the graphics engine: out-of-range address, assert) and 31 (page fault),
and the rarer 8, 11, 25, 32, 39 to 41, 44, 69 to 72, 75 to 77, 85. Nearly always a bug in the
code that the named process ran; the same Xid on one GPU with changing programs suggests
hardware.

The process dies or its stream stops, and the other ranks wait. Xid 43 and 45 that follow are
effects.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-application-fault",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A CUDA kernel of {who} crashed on GPU {pci} (Xid {xid}: {meaning})",
    when=log(line_of(Blame.APPLICATION), blames=Blames.NAMED, adds=WORDS),
    means=(
        "A kernel that this process started crashed on the GPU, which stopped its rank; the "
        "other ranks wait for it."
    ),
    confidence=0.82,
    remedies=(
        "NVIDIA's advice for Xid {xid}: {action}.",
        (
            "Find the kernel: CUDA_LAUNCH_BLOCKING=1 on that rank, or compute-sanitizer on a "
            "small reproduction."
        ),
        "If it stays with the GPU and not with the program, replace the GPU.",
    ),
    next_steps=(
        "Read the first CUDA error in that rank's log",
        "dmesg -T | grep Xid  # is it always the same GPU?",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 31, pid=48213, name=python3, channel "
            "0x00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_13 "
            "faulted @ 0x7f12_34560000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 13, pid=48213, name=python3, Graphics SM "
            "Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address"
        ),
        "[12345.67] NVRM: Xid (PCI:0000:03:00): 31, Ch 00000010, engmask 00000101, intr 10000000",
    ),
    misses=("[12345.67] NVRM: Xid (PCI:0000:1b:00): 43, pid=48213, name=python3, Ch 00000010",),
    outranks=(
        "ras-process-missing",
        "cuda-launch-failure",
        "launcher-exit-code",
    ),
)
