"""NCCL's health network finds nothing wrong: all processes answer, all counts are equal.

It counts what the host has launched, not what the GPU has done. Equal counts in a job that
stands still mean that every rank launched its part, or that all are held up before the next
call; sends, receives and captured graphs are not counted.

Then the network, the links, a GPU, or sizes that differ are what is left.
"""

from whyhang.analyzer.match import Kind, Signature, ras

SIGNATURE = Signature(
    id="ras-all-even",
    category="unknown",
    kind=Kind.CAUSE,
    level="fallback",
    title="NCCL RAS: every process answers and all ranks have launched the same collectives",
    when=ras("even", named=False),
    means=(
        "No rank is missing or behind. If the job stands still, its cause lies below the "
        "program (network, NCCL, GPU), or in sends, receives and sizes that RAS does not count."
    ),
    confidence="hint",
    remedies=("Look at the GPUs and links of all hosts: nvidia-smi, dmesg, ibstat.",),
    next_steps=(
        "whyhang PID  # do the ranks stand in a collective, or before one?",
        "nvidia-smi; dmesg -T | grep -iE 'NVRM|Xid|mlx5'  # on every host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    last_resort=True,
)
