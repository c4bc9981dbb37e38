"""NCCL 2.30 gave a network card up.

With port fail-over it moves traffic to the remaining cards; with too many failures it stops
with a fatal error.

The card is one of this host or of its peer; the speaker is where it showed.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-nic-failed",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="NCCL marked network cards of {who}'s host as failed",
    when=log(
        r"NET/IB\w* ?: ?Fatal error\. Detected \d+ failed devices",
        r"NET/IB\w* ?: ?.*[Dd]evice \d+ marked as failed",
        blames=Blames.SPEAKER,
    ),
    means="Network cards failed during the job.",
    confidence=0.8,
    remedies=(
        (
            "Check the cards and links of this host and of the peers it names; take the bad "
            "host out of the job."
        ),
    ),
    next_steps=("ibstat; rdma link; dmesg -T | grep mlx5  # on this host",),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib/p2p_resiliency.cc:300 NCCL WARN NET/IB: Fatal "
            "error. Detected 2 failed devices out of 2"
        ),
        (
            "node3:99:140 [1] transport/net_ib/p2p_resiliency.cc:250 NCCL WARN NET/IB: Device "
            "1 marked as failed. Initiating recovery? 1"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO NET/IB : Made virtual device [1] name=mlx5_1 "
            "speed=400000 ndevs=1 rail=0 plane=0"
        ),
    ),
    outranks=(
        "nccl-ib-retry-exceeded",
        "launcher-exit-code",
    ),
)
