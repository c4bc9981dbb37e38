"""The GPU driver does not answer.

A program that only asks for the state of the GPUs stays in uninterruptible sleep in the kernel: a
GPU's firmware does not answer (Xid 119, 120), a GPU is lost, or a reset is under way. Every CUDA
call on the host may hang the same way.
"""

from whyhang.analyzer.match import Kind, Signature, driver_hangs

SIGNATURE = Signature(
    id="gpu-driver-hangs",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="The GPU driver of {hosts} does not answer",
    when=driver_hangs(),
    means="{says}. A sick GPU blocks the driver, and with it every CUDA call on {hosts}.",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reboot {hosts}; processes in that sleep cannot be ended.",
    ),
    next_steps=(
        "dmesg -T | grep -E 'Xid|NVRM'  # on {hosts}",
        "cat /proc/$(pgrep -n nvidia-smi)/stack  # as root, on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=("stuck-together",),
)
