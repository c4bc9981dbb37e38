"""A gloo message is longer than the buffer that waits for it.

gloo does not compare shapes beforehand; the difference shows when the longer message arrives.
The rank that aborts is the one with the smaller tensor, and which of the two sizes is wrong is
not said. The usual reasons are a last batch of another size, padding that depends on local
data, or two collectives in different order.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-message-size-differs",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="Ranks passed tensors of different size to the same gloo collective",
    when=log(
        r"op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs\.? (?P<room>\d+)",
    ),
    means=(
        "A gloo message of {got} bytes arrived where this rank had room for {room}. The ranks "
        "called the same collective with tensors of different size, or different collectives "
        "that happened to meet."
    ),
    confidence=0.92,
    remedies=(
        (
            "Compare the shapes that each rank passes: pad to a common size, or gather the sizes "
            "first."
        ),
        "drop_last=True for the last, smaller batch.",
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names operation and shape of both ranks",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "  what():  [enforce fail at "
            "/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= "
            "op.nbytes. 8 vs 4"
        ),
        (
            "  what():  [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:456] "
            "op.preamble.length <= op.nbytes. 1004 vs 4. Received data size doesn't match "
            "expected size. Is there a distributed collective mismatch in your code?"
        ),
    ),
    misses=(
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/context.cc:23] rank < size. "
            "1 vs 1"
        ),
    ),
    outranks=("gloo-peer-gone",),
)
