"""NCCL warns of something, and nothing else in the logs tells what is wrong.

A WARN line is what NCCL prints before it returns an error. Those with a known story have
signatures of their own; this one makes sure that an unknown one is not passed over in silence.
A job that is seen to work on below it was not stopped by it.
"""

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Kind, Signature
from whyhang.analyzer.queries.logs.nccl import LOST_PEERS, WARNING

SIGNATURE = Signature(
    id="nccl-warning",
    category="unknown",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="NCCL warns: {what}",
    when=queries.nccl_warned,
    patterns=(WARNING,),
    vetoes=LOST_PEERS,
    means="NCCL prints such a line when one of its calls fails. What it means for the job is open.",
    confidence="hint",
    next_steps=(
        "Read the lines around it in the logs of all ranks: who says it first?",
        "Run again with NCCL_DEBUG=INFO",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        "node3:75:95 [2] graph/xml.h:101 NCCL WARN Attribute arch of node cpu not found",
        "node3:99:140 [1] init.cc:800 NCCL WARN Something that nobody has seen before",
    ),
    misses=(
        "node3:99:140 [1] NCCL INFO init.cc:1548 -> 3",
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error",
        "[rank1]: socketProgress: Connection closed by remote peer n9<55912>",
    ),
)
