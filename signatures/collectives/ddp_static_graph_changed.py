"""A DDP model declared static used other parameters than in its first step.

With static_graph=True DDP records in the first step which parameters get gradients. A later
step that uses more or fewer of them (a head that is switched on, stochastic depth, a branch on
data) breaks the plan, on all ranks or only on some.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-static-graph-changed",
    category="unused-parameters",
    kind=Kind.CAUSE,
    title="The graph of a static_graph DDP model changed between steps on {who}",
    when=log(
        r"Your training graph has changed in this iteration, e\.g\.",
        r"This error indicates that your training graph has changed in this iteration",
        blames=Blames.SPEAKER,
    ),
    means=(
        "static_graph=True promises that every step uses the same parameters. A step used "
        "others, so the gradient buckets of this rank no longer follow the recorded plan."
    ),
    confidence=0.9,
    remedies=(
        (
            "Remove static_graph=True, and use find_unused_parameters=True if the used "
            "parameters vary."
        ),
        "Or run every branch in every step, with weight 0 if need be.",
    ),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: Your training graph has changed in this iteration, e.g., one "
            "parameter is unused in first iteration, but then got used in the second iteration. "
            "this is not compatible with static_graph set to True."
        ),
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one. This error indicates that your training graph has changed in "
            "this iteration, e.g., one parameter is used in first iteration, but then got unused "
            "in the second iteration."
        ),
    ),
    misses=(
        "UserWarning: the training loss has changed in this iteration",
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one. This error indicates that your module has parameters that were "
            "not used in producing loss."
        ),
    ),
)
