"""NCCL misses some detail of the machine's topology.

In virtual machines and containers parts of /sys are missing: paths of PCI devices, link speeds.
NCCL falls back to defaults.

It may choose a worse path; it does not hang from it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-topology",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL could not read all of the topology",
    when=log(
        r"Could not find real path of /sys",
        r"Could not find real path of \S+ \(/sys",
        r"Topology detection ?: could not read",
        r"[Cc]ould not get speed from",
        r"NET/\S+ ?: Could not (?:read|get) speed",
    ),
    means="NCCL guesses where the machine does not tell.",
    confidence=0.9,
    matches=(
        (
            "node3:99:140 [1] NCCL INFO Could not find real path of "
            "/sys/class/pci_bus/fffffff/../../fffffff:ff:f"
        ),
        (
            "node3:99:140 [1] NCCL INFO Topology detection : could not read "
            "/sys/devices/pci0000:00/max_link_speed, ignoring"
        ),
        (
            "node3:99:140 [1] graph/xml.cc:230 NCCL WARN Could not find real path of "
            "/sys/class/net/ib0 (/sys/class/net/ib0/device)"
        ),
        "node3:99:140 [1] NCCL INFO Could not get speed from eth0. Defaulting to 10 Gbps.",
        "node3:99:140 [1] NCCL INFO NET/Socket : Could not get speed of eth0, using 10000",
    ),
    misses=(
        (
            "node3:99:140 [1] graph/paths.cc:290 NCCL WARN P2P is disabled between NVLINK "
            "connected GPUs 5 and 4."
        ),
    ),
)
