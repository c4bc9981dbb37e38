"""A parameter of a DDP model fires its gradient hook twice in one backward pass.

Usual reasons: re-entrant activation checkpointing together with find_unused_parameters=True, a
parameter used outside of the wrapped forward, several forward passes before one backward, or
shared weights in checkpointed blocks.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-marked-ready-twice",
    category="unused-parameters",
    kind=Kind.CAUSE,
    title="{who} used a DDP parameter twice in one backward pass",
    when=log(
        r"Expected to mark a variable ready only once\.",
        r"Parameter at index \d+(?: with name \S+)? has been marked as ready twice",
        blames=Blames.SPEAKER,
    ),
    means=(
        "DDP counts one gradient for each parameter and step. One parameter produced a second "
        "one, so the buckets of this rank no longer fit those of the others."
    ),
    confidence=0.9,
    remedies=(
        "Use torch.utils.checkpoint with use_reentrant=False.",
        (
            "Drop find_unused_parameters=True if all parameters are used, or pass "
            "static_graph=True if the graph never changes."
        ),
        "Call the DDP model once for each backward; do not call model.module parts beside it.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameter",),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: Expected to mark a variable ready only once. This error is caused by "
            "one of the following reasons: 1) Use of a module parameter outside the `forward` "
            "function."
        ),
        (
            "Parameter at index 1 with name a.bias has been marked as ready twice. This means "
            "that multiple autograd engine  hooks have fired for this particular parameter "
            "during this iteration."
        ),
        "Parameter at index 118 has been marked as ready twice.",
    ),
    misses=("RuntimeError: Trying to backward through the graph a second time",),
)
