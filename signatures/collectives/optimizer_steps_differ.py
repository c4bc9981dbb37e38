"""FSDP gathers the optimizer's state, and its step counts differ between ranks.

Ranks have called optimizer.step() different numbers of times: uneven data, steps that one rank
skipped, or a parameter that got no gradient on some ranks.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="optimizer-steps-differ",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="The optimizer's {what} differs between ranks",
    when=log(
        r"Rank \d+ has different values for (?P<what>\w+): .{1,200}Other ranks: ",
    ),
    means=(
        "The state of the optimizer is gathered from all ranks, which must agree in the values "
        "that are not sharded. They do not: ranks have taken different numbers of steps. Whose "
        "count is the right one cannot be told."
    ),
    confidence=0.8,
    remedies=(
        "Let all ranks run the same number of steps, and skip a step on all of them or on none.",
    ),
    next_steps=("Print the number of batches and of optimizer steps of each rank",),
    links=("https://docs.pytorch.org/docs/stable/fsdp.html",),
    matches=(
        "Rank 1 has different values for step: 8016.0. Other ranks: 7870.0",
        "ValueError: Rank 3 has different values for step: 12. Other ranks: 11",
    ),
    misses=("Ranks have different values for the seed", "Rank 1 has different shapes"),
    outranks=("uncaught-exception",),
)
