"""Every call that the recorders hold is completed on every rank.

Nobody waits in a collective, so this is no hang of collectives. If the job stands still all
the same, it does so between two of them: in the data, in storage, in the program itself.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict
from whyhang.analyzer.rank_state.from_logs.log_ends import have_ended


def when(case: Case) -> Iterable[Hit]:
    """Return a hit if all calls are completed, and more is known than what NCCL launched.

    A job that hangs in its first collective, or in its last, leaves such a log as well.
    """
    kinds = {track.kind for track in case.job.tracks}
    only_begun = kinds <= {"nccl-init", "nccl-coll"} and not have_ended(case.job)
    return () if only_begun else queries.recorded(case, Verdict.ALL_COMPLETED)


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
