"""NCCL uses GDRCopy and it fails.

The gdrdrv kernel module is not loaded or its device is not in the container, while
NCCL_GDRCOPY_ENABLE=1 asks for it. It hits the hosts where the module is missing.

NCCL does not need it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-gdrcopy",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="GDRCopy does not work on {who}'s host",
    when=log(
        r"GDRCOPY failure \d+",
        r"gdr_pin_buffer\(addr \w+, size \d+\) failed",
        blames=Blames.SPEAKER,
    ),
    means="GDRCopy was switched on and does not work on this host.",
    confidence=0.65,
    remedies=(
        "Unset NCCL_GDRCOPY_ENABLE, or load gdrdrv and pass /dev/gdrdrv into the container.",
    ),
    next_steps=("lsmod | grep gdrdrv; ls -l /dev/gdrdrv",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        "node3:99:140 [1] misc/gdrwrap.cc:140 NCCL WARN GDRCOPY failure 22",
        (
            "node3:99:140 [1] misc/gdrwrap.cc:170 NCCL WARN gdr_pin_buffer(addr 7f0000, size "
            "65536) failed: 12"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO GDRCOPY enabled library 2.4 driver 2.4",),
    outranks=("launcher-exit-code",),
)
