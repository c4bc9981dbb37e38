"""A rank's data iterator ended inside a generator, where the loop expected one more batch.

Shards or files of different length, an IterableDataset that is split unevenly, or a step count
that was computed from another rank's length. Alone in a log it may also be an ordinary bug of a
data pipeline.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="data-iterator-exhausted",
    category="uneven-inputs",
    kind=Kind.CAUSE,
    title="{who} ran out of batches in the middle of a step",
    when=log(
        r"RuntimeError: generator raised StopIteration",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The data iterator of this rank ended where the training loop still asked for a batch. "
        "If the other ranks have more batches, they now wait in a collective that this rank "
        "never reaches."
    ),
    confidence=0.5,
    remedies=(
        (
            "Give all ranks the same number of batches, or restart the iterator at its end on "
            "all ranks."
        ),
        "Agree on the number of steps with one all_reduce(MIN) before the epoch.",
    ),
    next_steps=("Print the number of batches of every rank",),
    matches=(
        "RuntimeError: generator raised StopIteration",
        "[rank3]: RuntimeError: generator raised StopIteration",
    ),
    misses=(
        "except StopIteration:",
        "raise StopIteration",
    ),
)
