"""nvidia-smi shows that a GPU must be reset before it can be used.

An uncorrectable error or a firmware fault has stopped it; every field reads "GPU requires
reset", or its recovery action is Reset, Reboot or Drain.

The kernel log holds the Xid that led to it.
"""

from whyhang.analyzer.match.gpu import Fault, faulty
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gpu-requires-reset",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="A GPU needs a reset",
    when=log(
        r"GPU requires reset",
        r"[Rr]ecovery [Aa]ction\s*:\s*(?:GPU )?(?:Reset|Reboot|Drain)",
        r"<gpu_recovery_action>(?:Reset|Reboot|Drain)",
        r"GPU recovery action changed from .* to 0x\w+ \((?:GPU Reset|Node Reboot|Drain)",
    ),
    unless=faulty(Fault.RESET),  # where the state is read, it says which GPU
    means="A GPU of this host stopped after an error and does no work until it is reset.",
    confidence="likely",
    remedies=(
        (
            "Take the host out of the job; with no process on the GPU run nvidia-smi "
            "--gpu-reset -i INDEX, or reboot."
        ),
    ),
    next_steps=(
        "dmesg -T | grep Xid  # on that host",
        "nvidia-smi -q -i INDEX",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "0, GPU-5d5ba0d6, [GPU requires reset], [GPU requires reset]",
        "    GPU Recovery Action                   : Reset",
        "<gpu_recovery_action>Drain and Reset</gpu_recovery_action>",
        (
            "[12345.67] NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 "
            "(None) to 0x1 (GPU Reset Required)"
        ),
    ),
    misses=(
        "    GPU Recovery Action                   : None",
        "<gpu_recovery_action>None</gpu_recovery_action>",
    ),
    explains=("launcher-exit-code",),
)
