"""A GPU has not joined the NVLink fabric of its host.

On hosts with NVSwitch, CUDA and NCCL come up only when Fabric Manager has set the fabric up
(state Completed, status Success). While it is in progress or failed, a start hangs or fails with
"system not yet initialized".
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-not-in-fabric",
    category="nvlink-error",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} has not joined the NVLink fabric{used}",
    when=faulty(Fault.FABRIC),
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
