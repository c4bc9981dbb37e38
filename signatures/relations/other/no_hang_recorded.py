"""The recorded calls show no hang."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict
from whyhang.analyzer.rank_state.log_ends import have_ended


def all_completed(case: Case) -> Iterable[Hit]:
    return () if _only_set_up(case) else queries.recorded(case, Verdict.ALL_COMPLETED)


ALL_COMPLETED = Signature(
    id="all-completed",
    story="""\
Every call that the recorders hold is completed on every rank.

Nobody waits in a collective, so this is no hang of collectives. If the job stands still all
the same, it does so between two of them: in the data, in storage, in the program itself.
""",
    category="healthy",
    level="fallback",
    title="Every recorded collective is completed on all ranks: this is no collective hang",
    when=all_completed,
    means="{says}. If the job does not move, look at its stacks: it stands between collectives.",
    confidence="likely",
    remedies=("If the job hangs, look at it while it does: whyhang PID.",),
    next_steps=("whyhang PID  # any process of the job",),
)

IN_MOTION = Signature(
    id="dumps-in-motion",
    story="""\
The recorder dumps were written while the job went on.

Over gloo nothing writes a dump by itself: it was asked for, and at that moment no rank had been
silent for longer than between two of its calls anyway. A rank that seems to be behind may just
have been on its way. Dumps of a job that hangs show a silence before they were written.
""",
    category="healthy",
    level="fallback",
    title="The recorder dumps are of a job that went on: nothing in them stands still",
    when=lambda case: queries.recorded(case, Verdict.IN_MOTION),
    means="{says}. They do not show a hang. If the job hangs later, take dumps then.",
    confidence="likely",
    remedies=("If the job hangs, take all dumps anew, some time after its last step.",),
    next_steps=("whyhang PID  # any process of the job",),
)

SIGNATURES = (ALL_COMPLETED, IN_MOTION)


def _only_set_up(case: Case) -> bool:
    """Return whether no more is known than that communicators were set up, and of no end.

    A job that hangs in its first collective, or at any step, leaves such a log as well.
    """
    kinds = {track.kind for track in case.job.tracks}
    return kinds == {"nccl-init"} and not have_ended(case.job)
