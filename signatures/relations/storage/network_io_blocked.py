"""A rank waits for a server that is not part of the job: HTTP, a model hub, a tracker.

A request without a timeout to a server that accepted and then said nothing blocks for ever.
Often only rank 0 logs to a tracker or downloads, so one rank is late and the rest wait.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.lagging(
        case,
        WaitKind.NETWORK,
        besides=(WaitKind.DATASET, WaitKind.DATALOADER, WaitKind.CHECKPOINT),
        alone=True,
    )


SIGNATURE = Signature(
    id="network-io-blocked",
    category="network-io-blocked",
    level="program",
    title="{who} {waits} for a network peer outside the job at {where}{waiting}",
    when=when,
    means="{who} {is} {does}{at}; the answer does not come{waiting}.",
    confidence="strong",
    remedies=(
        "Give the request a timeout, and let training go on without the tracker or the hub.",
        "Download once before the job, and set HF_HUB_OFFLINE=1 or the tracker's offline mode.",
    ),
    next_steps=("ss -tnp | grep {pid}  # to whom is the connection open?",),
)
