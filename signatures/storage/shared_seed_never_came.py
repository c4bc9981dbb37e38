"""A DataLoader waited in vain for the seed that rank 0 shares at the start of an epoch.

With datapipes every DataLoader takes part when a new epoch begins: rank 0 puts a seed into the
store and all others read it. Rank 0 has not begun this epoch: it has more batches than the
others, evaluates or saves, or has ended.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="shared-seed-never-came",
    category="store-key-never-set",
    kind=Kind.CAUSE,
    title="Rank 0 did not share the DataLoader's seed that rank {waiter} waited for",
    when=log(
        r"Timed out receiving the shared seed from the distr\w+ store on Rank (?P<waiter>\d+)",
        blames=Blames.ZERO,
    ),
    means=(
        "A DataLoader begins an epoch on all ranks together, with a seed from rank 0. Rank 0 had "
        "not begun it within the limit: the ranks have different numbers of batches, or rank 0 "
        "does something else meanwhile."
    ),
    confidence=0.8,
    remedies=(
        "See what rank 0 did then: more batches than the others, an evaluation, a checkpoint?",
        "Make the data of all ranks equally long (drop_last, a DistributedSampler, fullsync()).",
    ),
    next_steps=("py-spy dump --pid PID  # of rank 0, while the others wait",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        (
            "RuntimeError: Timed out receiving the shared seed from the distribtued store on Rank "
            "2. (world_size=4, timeout=1800)"
        ),
        (
            "RuntimeError: Timed out receiving the shared seed from the distributed store on Rank "
            "7. (world_size=8, timeout=1800)"
        ),
    ),
    misses=("RuntimeError: DataLoader timed out after 60 seconds",),
    outranks=("uncaught-exception", "plain-exception", "launcher-exit-code"),
)
