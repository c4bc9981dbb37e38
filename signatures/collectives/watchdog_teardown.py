"""The NCCL watchdog takes its process down after a collective failed or timed out.

These lines follow a timeout or an asynchronous error of the same rank and explain nothing by
themselves. The process ends with SIGABRT (exit code -6), and the launcher then ends its
siblings.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="watchdog-teardown",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="NCCL process groups are being torn down after a timeout or an error",
    when=log(
        (
            r"Some NCCL operations have failed or timed out\. Due to the asynchronous nature of "
            r"CUDA kernels"
        ),
        r"To avoid data inconsistency, we are taking the entire process down",
        r"(?:NCCL|Process group) watchdog thread terminated with exception: ",
        r"failure detected by watchdog at work sequence id: \d+",
        r"Exception \(either an error or timeout\) detected by watchdog at work: \d+",
        r"Timeout at NCCL work: \d+, last enqueued NCCL work: \d+",
        r"terminate called after throwing an instance of 'c10::DistBackendError'",
        (
            r"Terminating the process after attempting to dump debug info, due to (?:collective "
            r"timeout|ProcessGroupNCCL watchdog hang)"
        ),
        (
            r"Stack trace of the failed collective not found, potentially because FlightRecorder "
            r"is disabled"
        ),
    ),
    means=(
        "The process is ended on purpose after a collective failed or timed out. What comes "
        "after this line on the same rank follows from that."
    ),
    confidence=0.4,
    next_steps=("Read the first watchdog line and the first error of each rank instead",),
    matches=(
        (
            "[E709 17:05:39.081662161 ProcessGroupNCCL.cpp:684] [Rank 0] Some NCCL operations "
            "have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
            "subsequent GPU operations might run on corrupted/incomplete data."
        ),
        "[Rank 0] To avoid data inconsistency, we are taking the entire process down.",
        (
            "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with "
            "exception: [Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=5, OpType=BROADCAST"
        ),
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        (
            "[E ProcessGroupNCCL.cpp:1537] [PG 0 Rank 1] Exception (either an error or timeout) "
            "detected by watchdog at work: 5, last enqueued NCCL work: 6, last completed NCCL "
            "work: 4."
        ),
        (
            "[PG 0 Rank 1] Timeout at NCCL work: 5, last enqueued NCCL work: 6, last completed "
            "NCCL work: 4."
        ),
        (
            "[F1206 18:45:17.1 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
            "[PG ID 0 PG GUID 0(default_pg) Rank 2] Terminating the process after attempting to "
            "dump debug info, due to collective timeout or exception."
        ),
        (
            "[E709 17:05:38.1 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective not "
            "found, potentially because FlightRecorder is disabled. You can enable it by setting "
            "TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value."
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work "
            "sequence id: 1 PG status: last enqueued work: 1, last completed work: -1"
        ),
    ),
    misses=(
        "terminate called after throwing an instance of 'std::runtime_error'",
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
    ),
)
