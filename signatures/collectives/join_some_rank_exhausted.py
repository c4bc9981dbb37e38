"""A Join context stopped this rank because another one ran out of batches.

The speaker is one of those that still had input. The rank that was through first prints its own
number in a line of its own ('exhausted all inputs').
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="join-some-rank-exhausted",
    category="uneven-inputs",
    kind=Kind.CAUSE,
    title="Some rank ran out of input before the others",
    when=log(
        r"Detected at least one rank that exhausted inputs\. Throwing across all ranks",
    ),
    means=(
        "The ranks have different numbers of batches, and the Join context stopped all of them "
        "when the first was through. The rank that prints this still had input."
    ),
    confidence=0.85,
    remedies=(
        (
            "Give all ranks the same number of batches: DistributedSampler(drop_last=True), or "
            "stop at the smallest length."
        ),
    ),
    next_steps=(
        "Look for 'exhausted all inputs' in the logs of the other ranks",
        "Print len(loader) of every rank",
    ),
    links=("https://pytorch.org/docs/stable/distributed.algorithms.join.html",),
    matches=(
        (
            "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all "
            "ranks."
        ),
        (
            "[rank1]: RuntimeError: Detected at least one rank that exhausted inputs. Throwing "
            "across all ranks."
        ),
    ),
    misses=("RuntimeError: Rank 0 exhausted all inputs.",),
)
