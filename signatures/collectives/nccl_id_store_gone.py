"""The store closed while a rank waited for the NCCL id of rank 0.

Rank 0, or the agent that hosts the store, ended while the others were still setting up. Its own
first error is the cause; this is how the others learn of it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-id-store-gone",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Ranks lost the store while they waited for rank 0's NCCL id",
    when=log(
        (
            r"retr(?:ie|ei)ving ncclUniqueId(?:\(s\))? from .* got error: (?:Connection reset by "
            r"peer|Broken pipe|Failed to recv|Connection was likely closed)"
        ),
    ),
    means=(
        "The store went away in the middle of setting up NCCL. It lives in rank 0 (or in its "
        "launcher), which therefore ended first."
    ),
    confidence=0.7,
    next_steps=("Read the log of rank 0 and of the launcher on its node first",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from "
            "[0] via c10d key-value store by key '0', but store->get('0') got error: Connection "
            "reset by peer. This may indicate a possible application crash on rank 0 or a "
            "network set up issue."
        ),
        (
            "[7] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: Failed to recv, got 0 "
            "bytes. Connection was likely closed. Did the remote server shutdown or crash?"
        ),
    ),
    misses=(
        (
            "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: Socket Timeout"
        ),
    ),
)
