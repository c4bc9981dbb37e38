"""An NVSwitch port or the switch itself failed.

A fatal SXid stops traffic over that link or switch: collectives of the GPUs behind it hang,
their processes get Xid 74 or 45, and new ones error 802. The link number in the text leads to
the GPU.

It is a fault of the host, not of a rank.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="sxid-fatal",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="NVSwitch {pci} reports a fatal error (SXid {sxid})",
    when=log(
        r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<sxid>\d+), Fatal",
    ),
    means=(
        "A switch of the NVLink fabric failed, and the GPUs of this host can no longer talk to "
        "each other."
    ),
    confidence=0.93,
    remedies=(
        (
            "Take the host out of the job; reset all its GPUs and switches (restart the Fabric "
            "Manager, or reboot)."
        ),
        "Replace the baseboard if it returns.",
    ),
    next_steps=(
        "tail /var/log/fabricmanager.log",
        "dmesg -T | grep -E 'Xid|SXid'",
    ),
    links=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
    matches=(
        (
            "[12345.67] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 22 "
            "egress nonposted PRIV error"
        ),
        (
            "Jul  1 13:06:53 node7 kernel: nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, "
            "Fatal, Link 30 LTSSM Fault Up"
        ),
    ),
    misses=(
        (
            "[12345.67] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 22 "
            "egress non-posted"
        ),
    ),
    outranks=(
        "xid-nvlink",
        "cuda-nvlink-error",
        "cuda-fabric-not-ready",
        "launcher-exit-code",
    ),
)
