"""A DDP model has parameters that got no gradient, so the reduction of a step never finished.

Parameters are outside the loss: a frozen layer that still requires grad, an unused head, a
branch that depends on the data. When all ranks skip the same ones, DDP raises at the next
forward. When only some ranks skip them, the others wait in an all_reduce until the timeout.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-unused-parameters",
    category="unused-parameters",
    kind=Kind.CAUSE,
    title="{who} left parameters of a DDP model unused in the last step",
    when=log(
        (
            r"Expected to have finished reduction in the prior iteration before starting a new "
            r"one\. This error indicates that your module has parameters that were not used"
        ),
        r"Parameter indices which did not receive grad for rank (?P<rank>\d+): ",
        r"Parameters which did not receive grad for rank (?P<rank>\d+): ",
        blames=Blames.NAMED,
    ),
    means=(
        "DDP waits for a gradient of every parameter. Some got none in the previous step, so its "
        "reduction never finished. If only some ranks skip them, the others wait in their "
        "all_reduce."
    ),
    confidence=0.92,
    remedies=(
        "Set requires_grad=False on parameters that are never used, before wrapping the model.",
        (
            "Pass find_unused_parameters=True to DistributedDataParallel if the used set changes "
            "from step to step."
        ),
        "Make every output of forward take part in the loss.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=INFO names the parameters on the next run",),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one. This error indicates that your module has parameters that were "
            "not used in producing loss. You can enable unused parameter detection by passing "
            "the keyword argument `find_unused_parameters=True` to "
            "`torch.nn.parallel.DistributedDataParallel`, and by "
        ),
        "Parameter indices which did not receive grad for rank 1: 2 3",
        "Parameters which did not receive grad for rank 0: head.bias, head.weight",
    ),
    misses=(
        (
            "Warning: find_unused_parameters=True was specified in DDP constructor, but did not "
            "find any unused parameters in the forward pass."
        ),
    ),
)
