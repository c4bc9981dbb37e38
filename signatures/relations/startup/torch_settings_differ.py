"""Ranks have different settings of torch that decide which groups and barriers there are.

With ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` every group gets a second one of gloo beside it, which all
of its ranks must build; with ``TORCH_DIST_INIT_BARRIER`` all of them must come to a barrier. A rank
that was started without the setting never does, and the others wait for it.
"""

from whyhang.analyzer.match import Kind, Signature, unlike

SIGNATURE = Signature(
    id="torch-settings-differ",
    category="group-creation-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} has {key}={theirs}, the others: {usual}",
    when=unlike(
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_DIST_INIT_BARRIER",
        "TORCH_DIST_USE_NCCL2",
        "TORCH_DISTRIBUTED_USE_TORCHCOMMS",
        "TORCH_NCCL_USE_COMM_NONBLOCKING",
        "TORCH_NCCL_RANKS_PER_ROOT",
        "TORCH_GLOO_LAZY_INIT",
        "GLOO_DEVICE_TRANSPORT",
    ),
    means=(
        "With {key} set unlike the others, {who} builds other groups or comes to other barriers "
        "than they do."
    ),
    confidence="likely",
    remedies=("Give all ranks the same {key}: set it in the launcher, not on single hosts.",),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep -E '^(TORCH|GLOO)_'  # of each rank",),
    explains=("stuck-together",),
)
