"""A rank inside a Join context ran out of batches before the others.

Join(throw_on_early_termination=True) turns uneven inputs into an error on all ranks instead of
a hang. The rank that is through first says so by number, the others only that somebody was.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="join-rank-exhausted",
    category="uneven-inputs",
    kind=Kind.CAUSE,
    title="Rank {rank} ran out of input before the others",
    when=log(
        r"Rank (?P<rank>\d+) exhausted all inputs\.",
        blames=Blames.NAMED,
    ),
    means=(
        "The ranks have different numbers of batches. Rank {rank} was through first, and the "
        "Join context was told to stop all ranks then."
    ),
    confidence=0.93,
    remedies=(
        (
            "Give all ranks the same number of batches: DistributedSampler(drop_last=True), or "
            "stop at the smallest length."
        ),
        "Or use Join without throw_on_early_termination, which shadows the missing collectives.",
    ),
    next_steps=("Print len(loader) of every rank",),
    links=("https://pytorch.org/docs/stable/distributed.algorithms.join.html",),
    matches=(
        "RuntimeError: Rank 0 exhausted all inputs.",
        "RuntimeError: Rank 13 exhausted all inputs.",
    ),
    misses=(
        (
            "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all "
            "ranks."
        ),
        "Rank 0 exhausted its retries",
    ),
    outranks=("join-some-rank-exhausted",),
)
