"""Ranks that exchange objects got bytes that belong to something else.

all_gather_object, broadcast_object_list and their like in fairseq and ParlAI send pickled bytes.
Where one rank is in another call, what arrives is the other call's data and cannot be unpickled:
the ranks have fallen out of step. Who says so only notices it.
"""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

PATTERNS = (
    r"Unable to unpickle data from other workers\. all_gather_list requires all workers",
    r"unpickling error in all_gather_list",
)


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(_garbled(case), queries.logged(case, *PATTERNS))


SIGNATURE = Signature(
    id="objects-out-of-step",
    category="collective-mismatch",
    level="program",
    title="The ranks are out of step: objects that they exchange arrive garbled",
    when=when,
    patterns=PATTERNS,
    means=(
        "A rank unpickled what another one had sent in a different call. One of them left its "
        "loop earlier, skipped a call or made one more; the one that raises is not the one to "
        "blame."
    ),
    confidence="likely",
    remedies=(
        "Give every rank the same number of batches, or let the ranks agree on when to stop.",
        "Make no collective call under a condition that is not the same on all ranks.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names both calls.",),
    links=("https://pytorch.org/docs/stable/distributed.html#torch-distributed-debug",),
    matches=(
        (
            "Exception: Unable to unpickle data from other workers. all_gather_list requires all "
            "workers to enter the function together, so this error usually indicates"
        ),
        (
            "RuntimeError: There was an unpickling error in all_gather_list. This likely means "
            "your workers got out of syncronization"
        ),
    ),
    misses=("_pickle.UnpicklingError: invalid load key, 'v'.",),
    # is why the bytes cannot be read
    explains=("checkpoint-unreadable", "uncaught-exception", "plain-exception"),
)


def _garbled(case: Case) -> Iterator[Hit]:
    """Yield one hit if a rank raised while it unpickled what a collective for objects brought."""
    lines = [
        line
        for line in case.job.lines
        if (raised := line.raised) is not None
        and raised.type.endswith("UnpicklingError")
        and "object" in (raised.op or "")
    ]
    if lines:
        at = min((line.time for line in lines if line.time is not None), default=float("inf"))
        yield Hit(evidence=queries.cite_lines(lines), names_culprit=False, at=at)
