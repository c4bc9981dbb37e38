"""Every call that the recorders hold is completed on every rank.

Nobody waits in a collective, so this is no hang of collectives. If the job stands still all
the same, it does so between two of them: in the data, in storage, in the program itself.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict
from whyhang.analyzer.rank_state.from_logs.log_ends import have_ended


def when(case: Case) -> Iterable[Hit]:
    return () if _only_begun(case) else queries.recorded(case, Verdict.ALL_COMPLETED)


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


def _only_begun(case: Case) -> bool:
    """Return whether no more is known than what NCCL set up and launched, and of no end.

    A job that hangs in its first collective, or in its last, leaves such a log as well.
    """
    kinds = {track.kind for track in case.job.tracks}
    return kinds <= {"nccl-init", "nccl-coll"} and not have_ended(case.job)
