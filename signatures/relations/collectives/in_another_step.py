"""All ranks stand in one collective, and one of them is in another step of the loop.

A rank that skips a step (an empty batch, a NaN, a caught exception) or makes one more call than
the others does not hang at that place: its next calls meet those of the others one step off,
until two meet that do not fit. By then every rank stands in the same line. The counters of their
loops tell which one is off.
"""

from whyhang.analyzer.match import Kind, Signature, in_another_step

SIGNATURE = Signature(
    id="in-another-step",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="The ranks are in different steps of one loop: {who} at {theirs}, {others} at {usual}",
    when=in_another_step(),
    means=(
        "Every rank is in a collective, but {who} {is} at {theirs} and {others} at {usual}. Before "
        "that a rank made a call too many or too few, and since then the calls of different steps "
        "meet."
    ),
    confidence="strong",
    remedies=(
        (
            "Look for what lets a rank skip a step or a call: continue, return or except on "
            "rank-local data (an empty batch, a NaN, an error)."
        ),
        "Agree on it first: all_reduce the flag, and let every rank skip or none.",
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run raises at the first mismatch.",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    explains=("stuck-together", "collective-mismatch"),
)
