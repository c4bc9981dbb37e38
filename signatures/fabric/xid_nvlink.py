"""An NVLink of a GPU reported a fatal error or did not train.

Xid 74 on older generations; 144 to 150 and 155 on NVLink 5, with the link and the word Fatal or
Nonfatal in the text; 136 a link that does not come up. Collectives over that link hang or
abort. The fault may be at either end: compare with the Xids of the other GPUs and the SXids of
the switch.

The pid, if given, is of the host's namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature
from whyhang.signatures._xid import WORDS, Blame, line_of

SIGNATURE = Signature(
    id="xid-nvlink",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="NVLink of GPU {pci} failed (Xid {xid}: {meaning})",
    when=log(line_of(Blame.LINK), blames=Blames.NAMED, adds=WORDS),
    means="An NVLink connection failed, so data between GPUs of this host no longer moves.",
    confidence=0.88,
    remedies=(
        "NVIDIA's advice for Xid {xid}: {action}.",
        (
            "Take the host out of the job; reset its GPUs (and restart the Fabric Manager) "
            "with no job running."
        ),
        "Replace the GPU or baseboard if the errors return.",
    ),
    next_steps=(
        "nvidia-smi nvlink -s; nvidia-smi nvlink -e  # on that host",
        "dmesg -T | grep -E 'Xid|SXid'",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 74, pid='<unknown>', name=<unknown>, "
            "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0009:01:00): 145, pid=48213, name=python3, RLW_REMAP "
            "Nonfatal XC0 i0 Link 08 (0x004505c5 0x00000000)"
        ),
        (
            "[12345.67] NVRM: Xid (PCI:0000:dc:00): 45, pid=48213, name=python3, Ch 00000001 "
            "caused by previous Xid 149"
        ),
    ),
    misses=("[12345.67] NVRM: Xid (PCI:0000:1b:00): 174, test",),
    outranks=(
        "gpu-requires-reset",
        "gpu-nvlink-down",
        "gpu-nvlink-errors",
        "gpu-to-be-reset",
        "gpu-not-in-fabric",
        "gpus-spin-together",
        "launcher-exit-code",
    ),
)
