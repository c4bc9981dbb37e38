"""A GPU counts memory errors that cannot be corrected.

The volatile counter stands above zero: since the driver was loaded, memory of this GPU was lost
(Xid 48, 94, 95). One that grows between two looks happened now; an old one may have ended an
earlier job. Counters over the life of the board say nothing of this job and are left aside.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-ecc-uncorrected",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} has uncorrectable memory errors{used}",
    when=faulty(Fault.ECC),
    means=(
        "{gpus}: {says}. A program that meets such an error is ended, and the other ranks wait "
        "for it."
    ),
    confidence="strong",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPU so that the bad rows are remapped; if errors come back, have it replaced.",
    ),
    next_steps=(
        "nvidia-smi -q -d ECC,ROW_REMAPPER -i {index}  # twice: does the volatile count grow?",
        "dmesg -T | grep -E 'Xid.*: (48|63|64|94|95|140|171|172),'  # on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    explains=("launcher-exit-code", "gpu-never-launched", "gpus-spin-together", "stuck-together"),
)
