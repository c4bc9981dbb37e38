"""A kernel on an AMD GPU touched memory that it must not touch.

An index out of range, a race with freed memory, a bug in a custom kernel, seldom the board. The
runtime prints one line and aborts the process. The number is that of the runtime's agent (CPUs
are counted, too), not a rank.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rocm-memory-fault",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A GPU kernel of {who} crashed (memory access fault)",
    when=log(
        r"Memory access fault by GPU node-\d+ \(Agent handle: \S+\) on address \S+",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "A kernel on this rank's GPU touched an address that is not its own, which killed the "
        "rank. The others were left waiting for it."
    ),
    confidence=0.86,
    everywhere="not-distributed",
    remedies=(
        (
            "Run this rank's work with HIP_LAUNCH_BLOCKING=1 (AMD_SERIALIZE_KERNEL=3) to find the "
            "kernel."
        ),
    ),
    next_steps=("dmesg -T | grep -i amdgpu  # on that host: the fault's process and address",),
    links=("https://rocm.docs.amd.com/",),
    matches=(
        (
            "Memory access fault by GPU node-1 (Agent handle: 0x55d3a0) on address "
            "0x7f2c00000000. Reason: Page not present or supervisor privilege."
        ),
        (
            "[rank3]: Memory access fault by GPU node-7 (Agent handle: 0x6a1) on address (nil). "
            "Reason: Unknown."
        ),
    ),
    misses=("RuntimeError: CUDA error: an illegal memory access was encountered",),
    outranks=("launcher-exit-code",),
)
