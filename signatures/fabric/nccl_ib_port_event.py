"""The verbs layer reports that a card or port failed.

"port error" is a link that went down (cable, transceiver, switch port); a device fatal event is
the card itself. Newer NCCL files the port error under non-fatal events, since the port may come
back: if "port active" follows soon, it was a flap.

Every process that opened the card prints it, so all ranks of that host may speak: it is the
host's card that is at fault.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-port-event",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A network card of {who}'s host lost its link or failed",
    when=log(
        r"NET/IB\w* ?: ?\S+ async fatal event: ",
        (
            r"NET/IB\w* ?: ?.*Got (?:non-fatal )?async (?:error )?event ?: ?(?:port error|local "
            r"catastrophic error)"
        ),
        blames=Blames.SPEAKER,
    ),
    means="A network card of this host lost its link or broke, and transfers through it stop.",
    confidence=0.8,
    remedies=(
        (
            "Check cable, transceiver and switch port of that card; take the host out of the "
            "job until then."
        ),
        "Leave the card out with NCCL_IB_HCA=^NAME on all hosts if it must go on.",
    ),
    next_steps=(
        "Run again with NCCL_IB_DISABLE=1: it works if this is it.",
        "ibstat NAME; rdma link; dmesg -T | grep -i 'link down'",
        "perfquery  # LinkDownedCounter, SymbolErrorCounter; on Ethernet: ethtool -S INTERFACE",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        "node3:99:140 [1] transport/net_ib.cc:94 NCCL WARN NET/IB : Got async event : port error",
        (
            "node3:99:140 [1] transport/net_ib.cc:120 NCCL WARN NET/IB : mlx5_3:1 Got "
            "non-fatal async event: port error(10)"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 async fatal "
            "event: local catastrophic error"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:110 NCCL WARN NET/IB : mlx5_3:1 Got async "
            "error event: port error"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:120 NCCL WARN NET/IB : mlx5_3:1 Got "
            "non-fatal async event: port active(9)"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:100 NCCL WARN NET/IB : mlx5_3:1 async fatal "
            "event on QP (0x7f01): local access violation work queue error"
        ),
    ),
    outranks=(
        "nccl-ib-retry-exceeded",
        "nccl-ib-completion-error",
        "launcher-exit-code",
    ),
)
