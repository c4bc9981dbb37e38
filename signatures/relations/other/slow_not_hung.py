"""The job moves, only late: one rank is slower and the others wait for it each step.

Between two looks a rank went on, or the waiting ranks had an answer and came back to wait
again. Restarting such a job loses its work for nothing.
"""

from whyhang.analyzer.match import Kind, Signature, moving

SIGNATURE = Signature(
    id="slow-not-hung",
    category="slow-not-hung",
    kind=Kind.CAUSE,
    level="wait",
    title="The job still moves; {others} {wait} for {who} ({does}{at})",
    when=moving(),
    means=(
        "Ranks went on between the looks, so this is not a hang. {who} is behind the others "
        "({does}{at})."
    ),
    confidence="likely",
    remedies=("Leave the job running, and look at why {who} is slower: data, CPU, thermal, host.",),
    next_steps=("whyhang {pid} --looks 10 --interval 5  # is it always the same rank?",),
)
