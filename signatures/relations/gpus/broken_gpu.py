"""A GPU itself is broken, as its state says; less sure where the ranks use others."""

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Signature
from whyhang.analyzer.queries.gpus import (
    failed_diagnostic,
    has_ecc_errors,
    is_lost,
    is_out_of_fabric,
    is_unreadable,
    needs_repair,
    needs_reset,
)

OUT_OF_REACH = Signature(
    id="gpu-out-of-reach",
    story="""\
The driver no longer reaches a GPU.

nvidia-smi or NVML names a GPU and says that it is lost or that its handle cannot be determined:
it fell off the PCIe bus (Xid 79), by power, heat, a riser or the board. New CUDA processes may
fail on all GPUs of the host, while running ones on the others go on. The rank on it hangs or
dies, and the others wait for it.
""",
    category="gpu-fell-off-bus",
    level="machine",
    title="{gpus} is lost to its driver{used}",
    when=lambda case: queries.gpus_with(case, is_lost),
    means=(
        "The driver does not reach {gpus} any more ({says}). The rank on it cannot go on, and "
        "every rank that meets it waits."
    ),
    confidence="strong",
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
)

UNREADABLE = Signature(
    id="gpu-unreadable",
    story="""\
The driver cannot read the values of a GPU.

Load, power or temperature read ERR! or Unknown Error: the GPU is hanging, lost or about to need
a reset (Xid 79, 119, 74). A fan that cannot be read does not count.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="The driver cannot read {gpus}{used}",
    when=lambda case: queries.gpus_with(case, is_unreadable),
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
)

TO_BE_RESET = Signature(
    id="gpu-to-be-reset",
    story="""\
A GPU must be reset before it does any more work.

An uncorrectable error or a firmware fault has stopped it. The driver says so in the place of its
values, or by its recovery action: Reset, Reboot, Drain. The kernel log holds the Xid.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="{gpus} needs a reset{used}",
    when=lambda case: queries.gpus_with(case, needs_reset),
    means="{gpus} stopped after an error and does no work until it is reset ({says}).",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reset the GPU (nvidia-smi --gpu-reset -i {index}, with no process on it) or reboot.",
    ),
    next_steps=("dmesg -T | grep Xid  # on {hosts}", "nvidia-smi -q -i {index}  # on {hosts}"),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
)

ECC_UNCORRECTED = Signature(
    id="gpu-ecc-uncorrected",
    story="""\
A GPU counts memory errors that cannot be corrected.

The volatile counter stands above zero: since the driver was loaded, memory of this GPU was lost
(Xid 48, 94, 95). One that grows between two looks happened now; an old one may have ended an
earlier job. Counters over the life of the board say nothing of this job and are left aside.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="{gpus} has uncorrectable memory errors{used}",
    when=lambda case: queries.gpus_with(case, has_ecc_errors),
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
)

MEMORY_REPAIR = Signature(
    id="gpu-memory-repair",
    story="""\
A GPU has memory that waits to be repaired, or could not be.

After an uncorrectable error the driver sets rows (A100 and newer) or pages (older) aside at the
next reset. Until then the GPU works, mostly; where remapping has failed it should not be used.
""",
    category="gpu-hardware-xid",
    level="wait",
    title="{gpus} has memory to be repaired{used}",
    when=lambda case: queries.gpus_with(case, needs_repair),
    means="{gpus}: {says}. An uncorrectable error came before.",
    confidence="possible",
    remedies=(
        "Drain {hosts} and reset the GPU (nvidia-smi --gpu-reset -i {index}) at the next chance.",
        "Have the GPU replaced if remapping has failed.",
    ),
    next_steps=("nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT -i {index}  # on {hosts}",),
    links=("https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html",),
)

NOT_IN_FABRIC = Signature(
    id="gpu-not-in-fabric",
    story="""\
A GPU has not joined the NVLink fabric of its host.

On hosts with NVSwitch, CUDA and NCCL come up only when Fabric Manager has set the fabric up
(state Completed, status Success). While it is in progress or failed, a start hangs or fails with
"system not yet initialized".
""",
    category="nvlink-error",
    level="machine",
    title="{gpus} has not joined the NVLink fabric{used}",
    when=lambda case: queries.gpus_with(case, is_out_of_fabric),
    means="{gpus}: {says}. Fabric Manager has not set the links up, or lost them.",
    confidence="likely",
    remedies=(
        "On {hosts}, with no job there: systemctl restart nvidia-fabricmanager.",
        "Its version must be that of the driver.",
    ),
    next_steps=(
        "systemctl status nvidia-fabricmanager; tail /var/log/fabricmanager.log  # on {hosts}",
        "nvidia-smi -q | grep -A 3 Fabric",
    ),
    links=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
)

FAILED_TEST = Signature(
    id="gpu-failed-test",
    story="""\
DCGM's diagnostic found a GPU wanting.

``dcgmi diag`` ran a test on it (memory, PCIe, power, stress) and says Fail. It runs where no job
is, so it tells of the board and not of the moment: a GPU that fails should not be given work.
The text beside the test says what failed.
""",
    category="gpu-hardware-xid",
    level="machine",
    title="{gpus} failed DCGM's diagnostic{used}",
    when=lambda case: queries.gpus_with(case, failed_diagnostic),
    means="{gpus}: {says}.",
    confidence="likely",
    remedies=("Take {hosts} out of the job until the test passes.",),
    next_steps=("dcgmi diag -r 3 -i {index}  # on {hosts}, with no job on it",),
    links=("https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",),
)

SIGNATURES = (
    OUT_OF_REACH,
    UNREADABLE,
    TO_BE_RESET,
    ECC_UNCORRECTED,
    MEMORY_REPAIR,
    NOT_IN_FABRIC,
    FAILED_TEST,
)
