"""The driver cannot read the values of a GPU.

Load, power or temperature read ERR! or Unknown Error: the GPU is hanging, lost or about to need
a reset (Xid 79, 119, 74). A fan that cannot be read does not count.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-unreadable",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="The driver cannot read {gpus}{used}",
    when=faulty(Fault.UNREADABLE),
    means="The driver gets no values from {gpus} ({says}): it is probably hung or lost.",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPU (nvidia-smi --gpu-reset -i {index}, with no process on it) or reboot.",
    ),
    next_steps=(
        "dmesg -T | grep -E 'NVRM|Xid'  # on {hosts}",
        "nvidia-smi -q -i {index}  # on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=(
        "gpu-err-in-nvidia-smi",
        "launcher-exit-code",
        "stuck-together",
        "gpu-never-launched",
        "gpus-spin-together",
    ),
)
