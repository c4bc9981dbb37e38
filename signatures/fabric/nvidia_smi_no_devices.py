"""nvidia-smi finds no devices at all.

All GPUs are gone (power, a failed baseboard, a driver that could not initialise them), or the
command ran in a container or virtual machine without GPUs.

Only the first matters; the kernel log of the host decides.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nvidia-smi-no-devices",
    category="gpu-fell-off-bus",
    kind=Kind.CAUSE,
    title="The driver finds no GPU on a host",
    when=log(
        r"No devices were found",
    ),
    means="No GPU is visible where the command ran. Ranks started there cannot work.",
    confidence=0.65,
    remedies=(
        "Check whether the command ran on the host with the GPUs; if so, drain and reboot it.",
    ),
    next_steps=("lspci | grep -i nvidia; dmesg -T | grep NVRM  # on the host",),
    matches=(
        "No devices were found",
        "node7: No devices were found",
    ),
    misses=("No running processes found",),
    outranks=("launcher-exit-code",),
)
