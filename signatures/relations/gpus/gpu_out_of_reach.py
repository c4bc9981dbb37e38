"""The driver no longer reaches a GPU.

nvidia-smi or NVML names a GPU and says that it is lost or that its handle cannot be determined:
it fell off the PCIe bus (Xid 79), by power, heat, a riser or the board. New CUDA processes may
fail on all GPUs of the host, while running ones on the others go on. The rank on it hangs or
dies, and the others wait for it.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-out-of-reach",
    category="gpu-fell-off-bus",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} is lost to its driver{used}",
    when=faulty(Fault.LOST),
    means=(
        "The driver does not reach {gpus} any more ({says}). The rank on it cannot go on, and "
        "every rank that meets it waits."
    ),
    confidence="certain",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        (
            "Power-cycle {hosts} (a warm reboot may not be enough); check power, cooling and "
            "seating; have the board replaced if it comes back."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -E 'Xid|fallen off'  # on {hosts}",
        "nvidia-smi -L  # which index is missing?",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=(
        "gpu-lost",
        "gpu-unreadable",
        "gpu-err-in-nvidia-smi",
        "cuda-unknown-error",
        "launcher-exit-code",
        "stuck-together",
        "gpu-never-launched",
        "gpus-spin-together",
    ),
)
