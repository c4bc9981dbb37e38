"""The first tries of a connection that is not ready yet.

Peers come up one after the other; a refused connection is tried again after a moment. Fewer
than twenty tries mean nothing.

From the twentieth on see nccl-connect-still-trying.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-retry",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL tried a connection again",
    when=log(
        r"connect (?:to \S+ )?returned [^,]+, retrying \(1?\d/\d+\)",
        r"Call to (?:connect|accept) returned [^,]+, retrying",
    ),
    means="A connection took a few tries.",
    confidence=0.9,
    matches=(
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection refused, retrying (2/34) after sleep for 200 msec"
        ),
        "node3:99:140 [1] NCCL INFO Call to connect returned Connection refused, retrying",
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection refused, retrying (34/34) after sleep for 3400 msec"
        ),
    ),
)
