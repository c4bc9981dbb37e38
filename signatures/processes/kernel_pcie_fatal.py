"""PCIe reports an uncorrected fatal error or shut a port off.

A GPU, network card or drive on that port is gone until a reset: AER with severity Fatal, or a
containment event (DPC). Corrected AER messages are ordinary.

The port's address tells the device (lspci -t); a GPU then shows Xid 79.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-pcie-fatal",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="A PCIe device of a host failed",
    when=log(
        (
            r"AER: .*(?:Uncorrected \(Fatal\)|Uncorrectable \(Fatal\)|Multiple Uncorrect(?:ed|"
            r"able) \(Fatal\))"
        ),
        r"PCIe Bus Error: severity=Uncorrect(?:ed|able) \(Fatal\)",
        r"DPC: containment event",
    ),
    means="A device of this host fell off PCIe, and whatever used it stops.",
    confidence=0.65,
    remedies=(
        (
            "Take the host out of the job; power-cycle it and check the device, riser and "
            "cables behind that port."
        ),
    ),
    next_steps=("lspci -tv; dmesg -T | grep -E 'AER|DPC|Xid'  # on that host",),
    matches=(
        "[ 991.2] pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: 0000:3b:00.0",
        (
            "[ 991.2] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), "
            "type=Transaction Layer"
        ),
        "[ 991.2] pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01 source:0x0000",
    ),
    misses=(
        "[ 991.2] pcieport 0000:3a:00.0: AER: Corrected error received: 0000:3b:00.0",
        "[ 1.2] pcieport 0000:3a:00.0: DPC: error containment capabilities: Int Msg #0",
    ),
    outranks=("launcher-exit-code",),
)
