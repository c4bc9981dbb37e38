"""Two ranks disagree about how much a collective moves.

NCCL's network layer receives more than it was told to expect: the ranks are in the same
position but with different tensor shapes, different data types, different collectives, or
different NCCL_ALGO or NCCL_PROTO settings. It is the best proof of a mismatch that NCCL itself
gives.

The line names the peer's address; which of the two is wrong it cannot know. The opposite case
(too little sent) hangs in silence.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-collective-size-mismatch",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title=(
        "Ranks called a collective with different sizes ({theirs} bytes came, {ours} were expected)"
    ),
    when=log(
        r"[Mm]essage truncated : receiving (?P<theirs>\d+) bytes instead of (?P<ours>\d+)",
        r"collective mismatch error,? local size (?P<ours>\d+) remote (?:size )?(?P<theirs>\d+)",
    ),
    means=(
        "Two ranks met in the same place with different amounts of data: their tensors, data "
        "types or collectives differ, or one of them has skipped or added a call."
    ),
    confidence=0.95,
    remedies=(
        (
            "Compare the call, shape and dtype on the ranks: a last batch of another size, "
            "padding, a filtered list, a branch on local data."
        ),
        "Check that NCCL_ALGO and NCCL_PROTO are the same on all ranks.",
    ),
    next_steps=(
        "Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the ranks and both calls",
        (
            "Run again with TORCH_FR_BUFFER_SIZE=2000 (older: TORCH_NCCL_TRACE_BUFFER_SIZE) "
            "and give the dumps to whyhang"
        ),
    ),
    links=("https://github.com/NVIDIA/nccl/issues/1328",),
    matches=(
        (
            "node3:99:140 [1] transport/net_socket.cc:493 NCCL WARN NET/Socket : peer "
            "10.1.0.4<43210> message truncated : receiving 524288 bytes instead of 65536. If "
            "you believe your socket network is in healthy state, there may be a mismatch in "
            "collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) between "
            "ranks"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:1200 NCCL WARN NET/IB : req 0/1 tag 5 peer "
            "10.1.0.4<43210> collective mismatch error, local size 4096 remote size 8192"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:665 NCCL WARN NET/IB : collective mismatch "
            "error local size 8192 remote 4096 addr 7ff7d1530000 rkey 2553d seq 14/1c"
        ),
        (
            "node3:99:140 [1] transport/net_socket.cc:330 NCCL WARN NET/Socket : message "
            "truncated : receiving 8192 bytes instead of 4096"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] bootstrap.cc:121 NCCL WARN Message truncated : received 1024 "
            "bytes instead of 256"
        ),
    ),
    outranks=("launcher-exit-code",),
)
