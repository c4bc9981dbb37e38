"""Every rank has launched, and the kernels wait for each other.

All GPUs are at 100 % with little power and no memory traffic: each runs a kernel that spins on its
peers. The program did its part on every rank. The cause lies below it, a link, the network, a GPU,
or in arguments that differ (size, group) in a way that stacks do not show.
"""

from whyhang.analyzer.match import Kind, Signature, all_spin

SIGNATURE = Signature(
    id="gpus-spin-together",
    category="unknown",
    kind=Kind.CAUSE,
    level="wait",
    title="All ranks have launched and their kernels wait for each other{where}",
    when=all_spin(),
    means=(
        "{gpus} are all at {load}: each runs a kernel that waits for its peers. No rank is "
        "missing; the cause is a link, the network or a GPU, or sizes that differ between ranks."
    ),
    confidence="likely",
    remedies=(
        "Look at NVLink, InfiniBand and kernel logs of all hosts before the code.",
        "Rule out different sizes with a flight-recorder dump or NCCL's RAS.",
    ),
    next_steps=(
        "nvidia-smi nvlink -e; dmesg -T | grep -iE 'NVRM|Xid|mlx5'  # on every host",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    explains=("stuck-together",),
)
