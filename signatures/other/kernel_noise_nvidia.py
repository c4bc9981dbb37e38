"""Lines that the NVIDIA driver prints on healthy machines.

Loading and probing messages, module signature remarks, reference-count remarks about power
states of idle GPUs, and the line with the GPU's uuid that stands before others.

Without an Xid they say nothing about a fault.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-noise-nvidia",
    category="healthy",
    kind=Kind.NOISE,
    title="Ordinary chatter of the NVIDIA driver",
    when=log(
        r"NVRM: refcntRequestReference_IMPL: ",
        r"NVRM: loading NVIDIA UNIX",
        r"NVRM: GPU at PCI:\S+ GPU-[0-9a-f-]+\s*$",
        r"nvidia: module (?:verification failed|license)",
        r"nvidia-(?:modeset|nvswitch\d*|uvm)\S*: (?:Loading|Loaded|Probing|module uses)",
        r"NVRM: nvAssertOkFailedNoLog: Assertion failed: .*NV_ERR_NOT_SUPPORTED",
    ),
    means="The driver talks to itself; nothing is wrong with the GPUs.",
    confidence=0.9,
    matches=(
        (
            "[11677.6] NVRM: refcntRequestReference_IMPL: Failed to enter state 1 (current "
            "state: 0, status: 0x00000056)"
        ),
        "[   93.3] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10  Tue Jan 21 2025",
        (
            "[   93.1] nvidia: module verification failed: signature and/or required key "
            "missing - tainting kernel"
        ),
        "[  993.1] NVRM: GPU at PCI:0000:1b:00: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77",
        (
            "[   93.3] nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX "
            "platforms  570.86.10"
        ),
        (
            "[11677.6] NVRM: nvAssertOkFailedNoLog: Assertion failed: Call not supported "
            "[NV_ERR_NOT_SUPPORTED] (0x00000056) returned from status @ gpu.c:120"
        ),
    ),
    misses=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 79, pid=48213, name=python3, GPU has "
            "fallen off the bus."
        ),
    ),
)
