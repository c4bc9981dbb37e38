"""One GPU computes while those of all other ranks have nothing to do.

The ranks wait for it on the host (a store, a barrier, gloo): its rank is behind with real work, or
in a kernel that does not end.
"""

from whyhang.analyzer.match import Kind, Signature, alone_at_work

SIGNATURE = Signature(
    id="gpu-alone-at-work",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} still computes: {gpus} is at {load}, the others at {theirs}",
    when=alone_at_work(),
    means=(
        "Only {gpus} is at work, at {load}; {others} {are} at {theirs} and {who} is waited for: it "
        "has more to compute, or a kernel of it does not end."
    ),
    confidence="possible",
    remedies=("Compare the work of {who} with that of the others: batch, shapes, a loop.",),
    next_steps=("nvidia-smi dmon -s pu -c 10  # does the load ever end?",),
    explains=("stuck-together",),
)
