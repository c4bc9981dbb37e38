"""NCCL sees that the other end of a socket has closed.

The peer exited or aborted before; this rank only reports it (ncclRemoteError). The address in
the line is the peer's, often one of its short-lived ports, and does not give a rank by itself.

Follow the chain: the peer's own first error is the cause, or, where the peer said nothing,
whatever killed it (OOM killer, node loss, pod deletion). A rank with no such message and no end
in its log is the one that died.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-peer-closed",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A peer closed its NCCL connection ({peer})",
    when=log(
        r"[Ss]ocketProgress: Connection closed by remote peer (?P<peer>[^\s<]+)<",
        r"Connection closed by remote peer (?P<peer>[^\s<]+)<",
        r"\] \S+:\d+ (?:NCCL )?WARN (?:Net : )?Connection closed by (?P<peer>remote peer) *$",
    ),
    means=(
        "A rank on the other side has gone away; this rank's error follows from it. Look for "
        "the first rank that ended."
    ),
    confidence=0.8,
    next_steps=(
        (
            "Find the process behind the address (bootstrap and NET lines of the INFO log) and "
            "read its last lines"
        ),
        "dmesg -T  # on that host; and what the scheduler says of it",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer node9.example.net<55912>"
        ),
        "socketProgress: Connection closed by remote peer 10.1.0.4<43210>",
        (
            "node3:99:140 [1] os/linux.cc:511 NCCL WARN ncclOsSocketProgress: Connection "
            "closed by remote peer 10.1.0.4<43210>"
        ),
        "node3:99:140 [0] include/socket.h:416 NCCL WARN Net : Connection closed by remote peer",
    ),
    misses=("node3:99:140 [1] NCCL INFO socketProgressOpt: abort called",),
)
