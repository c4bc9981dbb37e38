"""The watchdog thread of a rank stopped moving, so its heartbeat monitor ends the process.

This is something else than a collective that times out: here even the thread that would notice
it is blocked. It waits inside a CUDA or NCCL call (a stuck driver, a deadlock between two
communicators, an abort that never returns), or for the GIL, which some thread holds while it
blocks in CUDA. The C++ stacks printed around it tell which.

All ranks of a job that hangs for another reason may say so too: whoever says it is the one to
look at, not surely the one to blame.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="watchdog-stuck",
    category="gil-or-lock-deadlock",
    kind=Kind.CAUSE,
    title="The NCCL watchdog thread itself got stuck on {who}",
    when=log(
        r"ProcessGroupNCCL's watchdog got stuck for \d+ seconds without making progress",
        r"Heartbeat monitor timed out! Process will be terminated after dumping debug info",
        (
            r"NCCL monitor thread timeout\. Basically, this could be due to CUDA or NCCL calls "
            r"being unexpectedly blocking"
        ),
        r"monitoring thread detects no heartbeat and will finally kill the process",
        (
            r"(?i)monitor thread is disabled, but would have (?:terminated the process|killed "
            r"this job)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "The thread that watches collectives made no progress for minutes. It was blocked in a "
        "CUDA or NCCL call, or could not get the GIL that another thread holds inside such a "
        "call."
    ),
    confidence=0.45,
    remedies=(
        (
            "Take the stacks of that process with native frames: who holds the GIL, and in which "
            "CUDA call?"
        ),
        (
            "Do not call CUDA or NCCL from extensions while they hold the GIL, nor from "
            "destructors and garbage collection."
        ),
        "If it was only slow, raise TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.",
    ),
    next_steps=(
        "py-spy dump --native --pid PID",
        "nvidia-smi; dmesg -T | grep -E 'NVRM|Xid'  # on that host: do GPU and driver answer?",
    ),
    matches=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:1484] [PG ID 0 PG GUID 0(default_pg) "
            "Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
            "progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA "
            "API (e.g., CudaEventDestroy) hang blocking the watchdog"
        ),
        (
            "[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 3] Heartbeat monitor timed out! Process "
            "will be terminated after dumping debug info. workMetaList_.size() = 3"
        ),
        (
            "[Rank 1] monitoring thread detects no heartbeat and will finally kill the process! "
            "terminateProcessGroup_ 0"
        ),
        (
            "[F ProcessGroupNCCL.cpp:1002] [Rank 1] [PG 0 Rank 1] NCCL monitor thread timeout. "
            "Basically, this could be due to CUDA or NCCL calls being unexpectedly blocking, "
            "especially when your program enters a deadlock state in watchdog"
        ),
        (
            "[rank1]:[E ProcessGroupNCCL.cpp:1500] [PG ID 0 PG GUID 0(default_pg) Rank 1] "
            "ProcessGroupNCCL monitor thread is disabled, but would have terminated the "
            "process after attempting to dump debug info, due to ProcessGroupNCCL watchdog "
            "hang."
        ),
    ),
    misses=(
        (
            "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=133, "
            "OpType=ALLREDUCE"
        ),
    ),
)
