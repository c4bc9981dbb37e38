"""A send has no receive that fits it, or a receive no send.

Both sides receive, the peer is the wrong one, or the order of a pipeline's sends and receives
differs. Point-to-point operations pair by peer and order; one too many or too few blocks both.
"""

from whyhang.analyzer.match import Kind, Signature, unpaired

SIGNATURE = Signature(
    id="p2p-mismatch",
    category="p2p-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="{says}",
    when=unpaired(),
    means="{says}. A send and a receive that do not pair wait for ever.",
    confidence="strong",
    remedies=(
        (
            "Check the peers and the order of send and recv on both sides; use batch_isend_irecv "
            "where they cross."
        ),
    ),
    next_steps=("TORCH_FR_BUFFER_SIZE=2000 on the next run records every send and receive.",),
    links=("https://pytorch.org/docs/stable/distributed.html#point-to-point-communication",),
    explains=("stuck-together",),
)
