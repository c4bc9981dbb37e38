"""A GPU has fewer NVLinks up than the GPUs beside it.

Of equal GPUs on one host one has inactive links, or the topology joins it to the others by fewer
of them. Collectives over the missing links hang, fail or crawl (Xid 74). Links that no GPU of the
host has are no fault.
"""

from whyhang.analyzer.match import Kind, Signature, link_down

SIGNATURE = Signature(
    id="gpu-nvlink-down",
    category="nvlink-error",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} has NVLinks that are down{used}",
    when=link_down(),
    means="{gpus}: {says}. Collectives over these links hang or crawl.",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPUs of {hosts} together; have the board looked at.",
    ),
    next_steps=(
        "nvidia-smi nvlink -s; nvidia-smi nvlink -e  # on {hosts}",
        "dmesg -T | grep -E 'Xid.*: (74|14[4-9]|150),|SXid'  # on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=("stuck-together", "gpus-spin-together"),
)
