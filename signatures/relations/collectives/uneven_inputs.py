"""A rank has run out of data and left the loop that the others are still in.

Shards of different length, a sampler without drop_last, an iterable dataset that is not
split evenly: one rank has fewer steps, and goes on to the barrier or the end while the others
wait for it in the gradient all_reduce.
"""

from whyhang.analyzer.match import Kind, Signature, left_loop

SIGNATURE = Signature(
    id="uneven-inputs",
    category="uneven-inputs",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {has} left the training loop early while {others} {wait} for it in {call}",
    when=left_loop(),
    means=(
        "{who} {is} past the loop ({does}{at}); {others}, still in a step, {wait} for it. "
        "Most often the ranks have different numbers of batches."
    ),
    confidence="likely",
    remedies=(
        (
            "Give every rank the same number of batches: DistributedSampler, drop_last=True, or "
            "split iterable datasets evenly."
        ),
        "Where that cannot be, wrap the loop in torch.distributed.algorithms.join.Join.",
    ),
    next_steps=("Print len(loader) on every rank.",),
    links=("https://pytorch.org/docs/stable/distributed.algorithms.join.html",),
    explains=("collective-mismatch", "missing-rank-in-collective"),
)
