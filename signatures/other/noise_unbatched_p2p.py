"""A note, since torch 2.9, on how single sends and receives are executed.

In eager mode they are put in line with the collectives of the group. A program that relied on
the old behaviour can deadlock by that, which shows in stacks and recorder dumps and not in this
line.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-unbatched-p2p",
    category="healthy",
    kind=Kind.NOISE,
    title="Note on unbatched send and recv",
    when=log(
        r"An unbatched P2P op \(send/recv\) was called on this ProcessGroup with size \d+",
    ),
    means=(
        "PyTorch explains how it will run a send or recv. That is information, unless sends and "
        "recvs are really crossed."
    ),
    confidence=0.7,
    links=("https://pytorch.org/docs/stable/distributed.html#point-to-point-communication",),
    matches=(
        (
            "[W1120 23:12:14.6 ProcessGroupNCCL.cpp:4000] An unbatched P2P op (send/recv) was "
            "called on this ProcessGroup with size 8.  In lazy initialization mode, this will "
            "result in a new 2-rank NCCL communicator to be created."
        ),
        (
            "Warning: An unbatched P2P op (send/recv) was called on this ProcessGroup with size "
            "4.  In eager initialization mode, unbatched P2P ops are treated as independent "
            "collective ops"
        ),
    ),
    misses=("Trying to send to self without a matching recv",),
)
