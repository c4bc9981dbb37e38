"""A rank is stuck writing or reading a checkpoint while the others wait for it.

Rank 0 saves alone, to storage that does not take the data, and the others stand in the next
collective or barrier. A save that only takes long looks the same until it moves.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(
        case, WaitKind.CHECKPOINT, besides=(WaitKind.DATASET, WaitKind.DATALOADER), alone=True
    )


SIGNATURE = Signature(
    id="checkpoint-stall",
    category="checkpoint-stall",
    level="program",
    title="{who} {is} stuck in a checkpoint at {where}{waiting}",
    when=when,
    means="{who} {is} {does}{at} and {gets} to no end{waiting}.",
    confidence="strong",
    remedies=(
        "Check the storage that the checkpoint goes to: space, quota, mount, throughput.",
        "Save asynchronously (torch.distributed.checkpoint.async_save) or on all ranks alike.",
    ),
    next_steps=("cat /proc/{pid}/io; sleep 5; cat /proc/{pid}/io  # do the counters move?",),
)
