"""Every call that the recorders hold is completed on every rank.

Nobody waits in a collective, so this is no hang of collectives. If the job stands still all
the same, it does so between two of them: in the data, in storage, in the program itself.
"""

from whyhang.analyzer.match import Kind, Signature, Verdict, ledger, only_set_up

SIGNATURE = Signature(
    id="all-completed",
    category="healthy",
    kind=Kind.CAUSE,
    level="fallback",
    title="Every recorded collective is completed on all ranks: this is no collective hang",
    when=ledger(Verdict.ALL_COMPLETED),
    unless=only_set_up(),
    means="{says}. If the job does not move, look at its stacks: it stands between collectives.",
    confidence="likely",
    remedies=("If the job hangs, look at it while it does: whyhang PID.",),
    next_steps=("whyhang PID  # any process of the job",),
    last_resort=True,
)
