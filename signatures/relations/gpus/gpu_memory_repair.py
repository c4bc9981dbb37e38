"""A GPU has memory that waits to be repaired, or could not be.

After an uncorrectable error the driver sets rows (A100 and newer) or pages (older) aside at the
next reset. Until then the GPU works, mostly; where remapping has failed it should not be used.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-memory-repair",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="wait",
    title="{gpus} has memory to be repaired{used}",
    when=faulty(Fault.REPAIR),
    means="{gpus}: {says}. An uncorrectable error came before.",
    confidence="possible",
    remedies=(
        "Drain {hosts} and reset the GPU (nvidia-smi --gpu-reset -i {index}) at the next chance.",
        "Have the GPU replaced if remapping has failed.",
    ),
    next_steps=("nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT -i {index}  # on {hosts}",),
    links=("https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html",),
    gives_way=True,
)
