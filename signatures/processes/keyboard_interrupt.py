"""The processes were interrupted by hand, often because the job hung.

The traceback that comes with it is as good as a stack dump: it shows in which call each rank
stood.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="keyboard-interrupt",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Someone interrupted the job (Ctrl-C)",
    when=log(
        r"KeyboardInterrupt",
    ),
    means=(
        "A person, or a launcher on their behalf, interrupted the processes. The traceback shows "
        "where each stood at that moment, which is worth reading; the interrupt itself is no "
        "cause."
    ),
    confidence=0.5,
    next_steps=("Compare the last frames of all ranks in these tracebacks: who stands elsewhere?",),
    matches=(
        "KeyboardInterrupt",
        "[rank0]: KeyboardInterrupt",
    ),
    misses=("Press Ctrl-C to interrupt",),
)
