"""A GPU lets one process in, and that is another.

In compute mode Exclusive_Process (or Prohibited) a second process cannot make a context: the rank
that should use it is not on it.
"""

from whyhang.analyzer.match import Kind, Signature, taken_exclusively

SIGNATURE = Signature(
    id="gpu-taken",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    level="wait",
    title="{gpus} does not let its rank in{used}",
    when=taken_exclusively(),
    means="{gpus}: {says}, and its rank is not on it.",
    confidence="likely",
    remedies=(
        "End the process that holds it, or give the rank another GPU.",
        "nvidia-smi -c DEFAULT -i {index} lets several processes in.",
    ),
    next_steps=("nvidia-smi --query-gpu=index,compute_mode --format=csv; nvidia-smi pmon -c 1",),
    gives_way=True,
)
