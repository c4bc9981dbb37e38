"""A collective failed because its communicator was aborted or a remote rank is gone.

PyTorch aborts communicators after a timeout or an asynchronous error, and NCCL reports
ncclRemoteError when the process at the other end closes. Either way the reason lies earlier, or
on another rank, or in the network between.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="communicator-aborted",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A NCCL communicator was aborted because of an error elsewhere",
    when=log(
        r"NCCL communicator was aborted(?: on rank \d+|\.)",
        r"NCCL communicator encountered error set by ProcessGroupNCCL",
        r" remote error detected from rank: \d+",
        (
            r"ncclRemoteError: A call failed possibly due to a network error or a remote process "
            r"exiting prematurely"
        ),
        r"NCCL error: remote process exited or there was a network error",
    ),
    unless=log(r"Original reason for failure was: .*[Ww]atchdog caught collective"),
    means=(
        "This rank could not go on because its communicator was aborted, or because a peer went "
        "away. The first error of another rank, or the timeout before it, is the cause."
    ),
    confidence=0.6,
    next_steps=(
        "Look for the first rank that ended, and for its own first error",
        "dmesg -T; ip -s link  # on both hosts, if no process died",
    ),
    matches=(
        "RuntimeError: NCCL communicator was aborted.",
        (
            "NCCL communicator encountered error set by ProcessGroupNCCL: [Rank 0] Watchdog "
            "caught collective operation timeout"
        ),
        "[PG ID 0 PG GUID 0(default_pg) Rank 0]  remote error detected from rank: 3",
        (
            "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.  "
            "Original reason for failure was: [Rank 3] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=9"
        ),
        (
            "ncclRemoteError: A call failed possibly due to a network error or a remote process "
            "exiting prematurely."
        ),
        (
            "[Rank 1] Collective WorkNCCL(SeqNum=2, OpType=ALLREDUCE) raised the following async "
            "exception: NCCL error: remote process exited or there was a network error, NCCL "
            "version 2.21.5"
        ),
    ),
    misses=(
        "ncclInternalError: Internal check failed.",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
    ),
)
