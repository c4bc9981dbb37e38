"""A field of the nvidia-smi table reads ERR!.

The driver cannot read fan, temperature, power or load of that GPU: it is hanging, lost or needs
a reset (Xid 79, 119, 74). Fan sensors alone may fail on a GPU that otherwise works.

The table does not say which rank used it; the process list may, by pid.
"""

from whyhang.analyzer.match.gpu import Fault, faulty
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gpu-err-in-nvidia-smi",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="nvidia-smi shows ERR! for a GPU",
    when=log(
        r"\|[^|]*\bERR!",
        r",\s*\[Unknown Error\]",
    ),
    unless=faulty(Fault.UNREADABLE),  # where the state is read, it says which GPU
    means="The driver cannot read a GPU of this host: it is probably hung or lost.",
    confidence="likely",
    remedies=("Take the host out of the job; reset the GPU or reboot the host.",),
    next_steps=(
        "dmesg -T | grep -E 'NVRM|Xid'  # on that host",
        "nvidia-smi -q -i INDEX",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "|ERR!  ERR! ERR!    ERR! / ERR! |  23028MiB / 24576MiB |    ERR!      Default |",
        (
            "| N/A   ERR!   P0           ERR!  / 700W |   65710MiB / 143771MiB |    100%      "
            "Default |"
        ),
        "1, GPU-1a2b3c, [Unknown Error], [Unknown Error]",
    ),
    misses=(
        "npm ERR! code ELIFECYCLE",
        (
            "| N/A   33C    P0            118W /  700W |   65710MiB / 143771MiB |    100%      "
            "Default |"
        ),
    ),
    explains=("launcher-exit-code",),
)
