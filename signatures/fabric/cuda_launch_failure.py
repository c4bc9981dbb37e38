"""CUDA reports an unspecified launch failure or a kernel that was stopped.

The CUDA context of the process is lost and the process ends. A bad kernel is as likely as a
fault of the GPU; the kernel log of the host tells them apart (Xid 13 and 31: software, most
others: hardware).

The rank that prints it is the one, the others wait for it.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-launch-failure",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A CUDA kernel of {who} failed for a reason that the driver does not know",
    when=log(
        r"unspecified launch failure",
        r"the launch timed out and was terminated",
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means="The GPU work of this rank failed and took the rank down; the others wait for it.",
    confidence=0.75,
    everywhere="not-distributed",
    remedies=(
        (
            "Look for an Xid in the kernel log of that host; if it is one of the hardware "
            "kind, take the host out."
        ),
        "Otherwise run once with CUDA_LAUNCH_BLOCKING=1 and compute-sanitizer.",
    ),
    next_steps=("dmesg -T | grep Xid  # on that host",),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
    matches=(
        "RuntimeError: CUDA error: unspecified launch failure",
        "node3:99:140 [1] init.cc:2110 NCCL WARN Cuda failure 719 'unspecified launch failure'",
        "RuntimeError: CUDA error: the launch timed out and was terminated",
    ),
    misses=("RuntimeError: CUDA error: an illegal memory access was encountered",),
    outranks=(
        "nccl-proxy-operation-failed",
        "launcher-exit-code",
    ),
)
