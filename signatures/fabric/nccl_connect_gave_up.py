"""NCCL stopped trying to connect, without saying to whom.

NCCL up to 2.23 counts refused tries (20,000 of a millisecond, about 20 seconds) or time-outs (3
of about 20 seconds). Refused: the peer's process is gone or not there yet. Timed out: wrong
interface, firewall, dead host.

The address stands in the INFO lines "Call to connect returned ..., retrying" or can be had from
the bootstrap lines.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-connect-gave-up",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="NCCL gave up connecting to a peer",
    when=log(
        r"socket(?:Start|Poll)Connect: exceeded (?:retries|timeouts) \(\d+\)",
        r"Call to connect (?:failed|timeout) ?: ",
    ),
    means=(
        "A peer never accepted this rank's connection: it is gone, late, or not reachable on "
        "the interface that NCCL chose."
    ),
    confidence=0.65,
    remedies=(
        (
            "Set NCCL_SOCKET_IFNAME to a network that all hosts share, and open all TCP ports "
            "between them."
        ),
        "Look for ranks that exited before: nobody listens at their address.",
    ),
    next_steps=(
        "grep 'Bootstrap' LOG  # in the NCCL INFO log of every rank: are all in one subnet?",
        "Run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET",
    ),
    links=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:460 NCCL WARN socketStartConnect: exceeded "
            "retries (20000)"
        ),
        "node3:99:140 [1] misc/socket.cc:521 NCCL WARN socketPollConnect: exceeded timeouts (3)",
        (
            "node3:99:140 [1] include/socket.h:400 NCCL WARN Call to connect failed : "
            "Connection refused"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO Call to connect returned Connection refused, retrying",),
    outranks=("launcher-exit-code",),
)
