"""The recorder dumps were written while the job went on.

Over gloo nothing writes a dump by itself: it was asked for, and at that moment no rank had been
silent for longer than between two of its calls anyway. A rank that seems to be behind may just
have been on its way. Dumps of a job that hangs show a silence before they were written.
"""

from whyhang.analyzer.match import Kind, Signature, Verdict, ledger

SIGNATURE = Signature(
    id="dumps-in-motion",
    category="healthy",
    kind=Kind.CAUSE,
    level="fallback",
    title="The recorder dumps are of a job that went on: nothing in them stands still",
    when=ledger(Verdict.IN_MOTION),
    means="{says}. They do not show a hang. If the job hangs later, take dumps then.",
    confidence="likely",
    remedies=("If the job hangs, take all dumps anew, some time after its last step.",),
    next_steps=("whyhang PID  # any process of the job",),
    last_resort=True,
)
