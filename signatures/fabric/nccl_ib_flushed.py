"""Outstanding requests of a broken queue pair come back flushed (work completion 5).

The connection had already failed, by an earlier completion with another status, or because the
peer died and tore it down.

Look for the first completion with another status, or for the rank that ended.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-flushed",
    category="nccl-ib-error",
    kind=Kind.CONSEQUENCE,
    title="InfiniBand requests were flushed after the connection had broken",
    when=log(
        (
            r"NET/IB\w* ?: ?Got completion (?:from peer \S+ )?with (?:error |"
            r"status=)(?:IBV_WC_[A-Z_]+\()?5\b"
        ),
    ),
    means="These completions only say that the connection was already broken.",
    confidence=0.8,
    next_steps=("grep 'Got completion' LOG  # over all ranks: the first status that is not 5",),
    matches=(
        (
            "node3:99:140 [1] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with error 5, opcode 48, len 0, vendor err 249 (Recv)"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with status=5 opcode=129 len=32630 vendor err 244 (Recv)"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_ib.cc:2110 NCCL WARN NET/IB : Got completion from "
            "peer 10.1.0.4<43210> with status=12 opcode=0 len=0 vendor err 129 (Send)"
        ),
    ),
)
