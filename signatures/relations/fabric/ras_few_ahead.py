"""Few ranks have launched a collective that most have not.

Seen once in a job that runs, it is a matter of course: ranks launch ahead of their GPUs. In a
job that stands still the few made a call too many, or the many are held up together.

The counts do not tell which; the stacks do.
"""

from whyhang.analyzer.match import Kind, Signature, ras

SIGNATURE = Signature(
    id="ras-few-ahead",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="fallback",
    title="{who} launched a collective that most ranks of {comm} have not (NCCL RAS)",
    when=ras("ahead", named=False),
    means=(
        "If the job stands still, {who} made a call too many, or the others are held up "
        "before it. In a job that moves this is nothing."
    ),
    confidence="hint",
    remedies=("Compare the stacks of {who} with those of the others.",),
    next_steps=(
        "Ask RAS again after ten seconds: equal counts in both mean that the job stands still.",
        "whyhang PID  # on the host of {who} and on another one",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    last_resort=True,
)
