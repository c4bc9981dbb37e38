"""A non-fatal event of an NVSwitch.

It often follows from a GPU that was reset, from a process that died, or from an illegal access
of a program; the switch goes on.

Only its repetition on one link is a reason to look at that link.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="sxid-nonfatal",
    category="nvlink-error",
    kind=Kind.CONSEQUENCE,
    title="NVSwitch {pci} notes a non-fatal error (SXid {sxid})",
    when=log(
        r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]+)\): (?P<sxid>\d+), Non-fatal",
    ),
    means=(
        "The switch noted an event that does not stop it; it usually follows from what a GPU "
        "or a program did."
    ),
    confidence=0.4,
    links=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
    matches=(
        (
            "[12345.67] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 22013, Non-fatal, Link 22 "
            "Minion Link DLREQ interrupt"
        ),
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 24007, Non-fatal, Link 12 sourcetrack timeout",
    ),
    misses=(
        (
            "[12345.67] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 22 "
            "egress nonposted PRIV error"
        ),
    ),
)
