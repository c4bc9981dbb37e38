"""A rank sends to itself (or receives from itself) and the other half is missing.

A send and a recv to the own rank must stand in the same group call (batch_isend_irecv). It is
often an off-by-one in a ring or pipeline: the neighbour computed for the first or last stage is
the rank itself.

NCCL refuses this rank's call; its real neighbours wait for messages that never come.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-self-send",
    category="p2p-mismatch",
    kind=Kind.CAUSE,
    title="{who} sends to itself without the matching other half",
    when=log(
        (
            r"Trying to (?:send to|recv to|recv from|receive from) self without a matching "
            r"(?:recv|send|receive)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "This rank addressed itself in a point-to-point call without the counterpart. It "
        "raises, and the ranks that expected it wait."
    ),
    confidence=0.9,
    remedies=(
        "Correct the computation of the peer rank; skip the exchange where peer == rank.",
        "Put send and recv into one batch_isend_irecv call.",
    ),
    next_steps=("Print rank, peer and the group's size next to each send and recv",),
    matches=(
        (
            "node7:4711:4802 [0] enqueue.cc:1890 NCCL WARN Trying to send to self without a "
            "matching recv"
        ),
        "Trying to recv to self without a matching send",
    ),
    misses=(
        (
            "node7:4711:4802 [0] NCCL INFO Send: opCount 4 sendbuff (nil) recvbuff 0x7f count "
            "16 datatype 7 op 0 root 1 comm 0x55 [nranks=2] stream 0x5"
        ),
    ),
    outranks=("launcher-exit-code",),
)
