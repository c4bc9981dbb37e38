"""What NCCL prints while a healthy process ends.

Communicators are aborted or destroyed, sockets of the proxy are told to stop, and its service
thread notes that it cannot accept or receive any more (res=3, closed=0), or that a Close did
not go through. torch aborts communicators at exit when destroy_process_group was not called.

None of it tells why a job ended. After a failure the same lines follow from it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-teardown",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL's ordinary tear-down",
    when=log(
        r"[Ss]ocketProgressOpt: abort called",
        r"- Abort COMPLETE",
        r"- Destroy COMPLETE",
        (
            r"\[Service thread\] Accept failed (?:Resource temporarily unavailable|Operation "
            r"now in progress|Success|Invalid argument)"
        ),
        r"\[Service thread\] Could not receive type from localRank \d+, res=3, closed=\d",
        (
            r"\[Proxy Service \d+\] Failed to execute operation (?:Close|Stop|Abort|Deregister) "
            r"from rank \d+"
        ),
        (
            r"\[Service thread\] Error encountered progressing operation=(?:Close|Stop|Abort|"
            r"Deregister)"
        ),
        r"\[Service thread\] Connection closed by localRank \d+",
        r"\[Proxy Service UDS\] exit: stop",
    ),
    means="These lines belong to the end of a process, a good one or a bad one.",
    confidence=0.9,
    matches=(
        "node3:99:140 [1] NCCL INFO socketProgressOpt: abort called",
        (
            "node3:99:140 [1] NCCL INFO comm 0x58fcb8b86c70 rank 0 nranks 24 cudaDev 0 busId "
            "4000 - Abort COMPLETE"
        ),
        (
            "node3:99:140 [1] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Operation "
            "now in progress"
        ),
        (
            "node3:99:140 [1] proxy.cc:1497 NCCL WARN [Service thread] Could not receive type "
            "from localRank 0, res=3, closed=0"
        ),
        (
            "node3:99:140 [1] proxy.cc:1521 NCCL WARN [Proxy Service 0] Failed to execute "
            "operation Close from rank 0, retcode 3"
        ),
        "node3:99:140 [1] NCCL INFO [Service thread] Connection closed by localRank 3",
        (
            "node3:99:140 [1] NCCL INFO comm 0x58fcb8b86c70 rank 0 nranks 24 cudaDev 0 busId "
            "4000 - Destroy COMPLETE"
        ),
        (
            "node3:99:140 [1] proxy.cc:1500 NCCL WARN [Service thread] Error encountered "
            "progressing operation=Close, res=3, closing connection"
        ),
        "node3:99:140 [1] NCCL INFO [Proxy Service UDS] exit: stop 1 abortFlag 0",
    ),
    misses=(
        (
            "node3:99:140 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer 10.1.0.4<43210>"
        ),
        (
            "node3:99:140 [1] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Too many "
            "open files"
        ),
    ),
)
