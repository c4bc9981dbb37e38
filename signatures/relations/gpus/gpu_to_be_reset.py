"""A GPU must be reset before it does any more work.

An uncorrectable error or a firmware fault has stopped it. The driver says so in the place of its
values, or by its recovery action: Reset, Reboot, Drain. The kernel log holds the Xid.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-to-be-reset",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} needs a reset{used}",
    when=faulty(Fault.RESET),
    means="{gpus} stopped after an error and does no work until it is reset ({says}).",
    confidence="strong",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPU (nvidia-smi --gpu-reset -i {index}, with no process on it) or reboot.",
    ),
    next_steps=("dmesg -T | grep Xid  # on {hosts}", "nvidia-smi -q -i {index}  # on {hosts}"),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=(
        "gpu-requires-reset",
        "gpu-unreadable",
        "launcher-exit-code",
        "stuck-together",
        "gpu-never-launched",
        "gpus-spin-together",
    ),
)
