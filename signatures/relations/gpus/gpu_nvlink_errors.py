"""The NVLinks of a GPU count new errors.

Counters of replays, recoveries or CRC errors grew between two looks: the link is bad now. What a
counter held before the first look may be years old and does not count.
"""

from whyhang.analyzer.match import Kind, Signature, link_errors_grow

SIGNATURE = Signature(
    id="gpu-nvlink-errors",
    category="nvlink-error",
    kind=Kind.CAUSE,
    level="machine",
    title="NVLink errors grow on {gpus}{used}",
    when=link_errors_grow(),
    means="{gpus}: {says}. Collectives over a bad link hang, fail or crawl.",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPUs of {hosts} together; have the board looked at.",
    ),
    next_steps=(
        "nvidia-smi nvlink -e  # on {hosts}, twice",
        "dmesg -T | grep -E 'Xid.*: (74|14[4-9]|150),|SXid'  # on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=("stuck-together", "gpus-spin-together"),
)
