"""Every call that the recorders hold is completed on every rank.

Nobody waits in a collective, so this is no hang of collectives. If the job stands still all
the same, it does so between two of them: in the data, in storage, in the program itself.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.facts import SignOfLife
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict


def when(case: Case) -> Iterable[Hit]:
    return () if _only_set_up(case) else queries.recorded(case, Verdict.ALL_COMPLETED)


SIGNATURE = Signature(
    id="all-completed",
    category="healthy",
    level="fallback",
    title="Every recorded collective is completed on all ranks: this is no collective hang",
    when=when,
    means="{says}. If the job does not move, look at its stacks: it stands between collectives.",
    confidence="likely",
    remedies=("If the job hangs, look at it while it does: whyhang PID.",),
    next_steps=("whyhang PID  # any process of the job",),
)


def _only_set_up(case: Case) -> bool:
    """Return whether nothing is known of any work with the communicators that were set up.

    A job that hangs in its first collective leaves such a log as well as one that goes on.
    """
    kinds = {track.kind for track in case.job.tracks}
    return kinds == {"nccl-init"} and not case.job.of(SignOfLife)
