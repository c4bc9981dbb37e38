"""A connection with the wrong magic number reached NCCL.

A port scanner, a rank of another job, or a process left over from an earlier run. NCCL discards
it and goes on, so alone it proves little; but a stale rank of the same job keeps a place that a
living rank should take.

Worth a look only when ranks are missing in communicator set-up.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-foreign-connection",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="Something that is not part of this communicator connected to NCCL's sockets",
    when=log(
        r"socketFinalizeAccept: wrong (?:magic|type) [0-9a-fx]+ != [0-9a-fx]+",
        r"socket magic mismatch \(peer 0x[0-9a-f]+ != expected 0x[0-9a-f]+\), discarding",
    ),
    means=(
        "A process outside this communicator connected to it: a scanner, another job, or a "
        "left-over rank. It is harmless unless a rank of this job is missing."
    ),
    confidence=0.4,
    remedies=(
        "Kill left-over processes of earlier runs on all hosts.",
        "Exempt the training network from port scans.",
    ),
    next_steps=(
        "ps -eo pid,lstart,args | grep python  # on all hosts: is one of an older start left?",
        "Run with NCCL_DEBUG=INFO to see the address of the peer",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:344 NCCL WARN socketFinalizeAccept: wrong magic "
            "474554202f20 != 7d4c1f22a0b1"
        ),
        (
            "node3:99:140 [1] NCCL INFO ncclSocketAccept: socket magic mismatch (peer "
            "0x474554202f20 != expected 0x7d4c1f22), discarding peer connection"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO NCCL_SOCKET_MAGIC set by environment to 12",),
)
