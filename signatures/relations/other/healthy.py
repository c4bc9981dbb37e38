"""Nothing is wrong: the ranks go on.

Every rank that was looked at twice had moved, or had come back to the same wait in between,
and none holds the others up.
"""

from whyhang.analyzer.match import Kind, Signature, at_ease, moving

SIGNATURE = Signature(
    id="healthy",
    category="healthy",
    kind=Kind.CAUSE,
    level="wait",
    title="The ranks go on; no hang was found",
    when=at_ease(),
    unless=moving(),
    means="The ranks moved between the looks, and none holds the others up.",
    confidence="strong",
    remedies=("Nothing to do.",),
    next_steps=("whyhang PID --looks 6 --interval 5  # if you still doubt it",),
)
