"""The helper thread that sets connections up for a rank failed at it.

The proxy (service) thread opens network, shared-memory and IPC connections on behalf of the
ranks of its host. The reason stands in the NCCL WARN just before: a network, verbs, CUDA or
shared-memory error.

The rank in the line asked for the operation; it need not be at fault, so nobody is blamed. The
same message for Close, Stop or Abort is ordinary tear-down.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-proxy-operation-failed",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="NCCL's proxy could not carry out {operation}",
    when=log(
        (
            r"\[Proxy Service \d+\] Failed to execute operation (?P<operation>Init|SharedInit|"
            r"Setup|Connect|Start|GetFd|QueryFd|Register) from rank \d+, retcode \d+"
        ),
        (
            r"\[Service thread\] Error encountered progressing operation=(?P<operation>Init|"
            r"SharedInit|Setup|Connect|Start|GetFd|QueryFd|Register), res=\d+"
        ),
    ),
    means=(
        "A connection could not be set up by NCCL's helper thread. The warning before it says why."
    ),
    confidence=0.45,
    remedies=(
        "Read the NCCL WARN lines before this one on the same process; they hold the reason.",
        "If a peer was gone already, this is an effect: find the rank that ended first.",
    ),
    next_steps=(
        "Run again with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,PROXY",
        "Try NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1, one at a time",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "node3:99:140 [1] proxy.cc:1524 NCCL WARN [Proxy Service 1] Failed to execute "
            "operation Connect from rank 1, retcode 3"
        ),
        (
            "node3:99:140 [1] proxy.cc:1610 NCCL WARN [Service thread] Error encountered "
            "progressing operation=Connect, res=2, closing connection"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] proxy.cc:1521 NCCL WARN [Proxy Service 0] Failed to execute "
            "operation Close from rank 0, retcode 3"
        ),
    ),
)
