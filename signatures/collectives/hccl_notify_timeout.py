"""A collective of HCCL (Ascend NPUs) did not come to its end in time.

Error EI0002 is the device's own limit, HCCL_EXEC_TIMEOUT; a stream that cannot be synchronised in
time says the same from the host. The rank that prints it took part and waited. The remote rank in
the line is counted within the group, and is only the next one in the algorithm.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="hccl-notify-timeout",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="A collective of HCCL did not complete in time",
    when=log(
        r"The wait execution of the Notify register times out",
        r"Stream synchronize timeout\. \w+ execute failed",
        r"hccl fftsplus task timeout occurred",
        r"rt\w+Synchronize\w* execute failed, reason=\[(?:task|stream sync) timeout\]",
        r"NPU (?:function )?error[:,] .{0,120}error code is (?:50704[68]|107020)",
    ),
    means=(
        "A rank on an NPU waited for another one until the limit. Which rank did not come, the "
        "line does not say: it is one that prints nothing of the kind, or something else before."
    ),
    confidence=0.6,
    next_steps=(
        "Find the rank without this error, or with another one before it",
        "ASCEND_GLOBAL_LOG_LEVEL=1 on the next run; logs then stand in ~/ascend/log",
    ),
    links=("https://github.com/Ascend/pytorch",),
    matches=(
        (
            "EI0002: [PID: 2969] 2025-10-11-15:09:34.713.335 The wait execution of the Notify "
            "register times out. Reason: The Notify register has not received the Notify record "
            "from remote rank: [24]."
        ),
        (
            "EE1002: 2024-09-03-16:50:00.041.231 Stream synchronize timeout. rtDeviceSynchronize "
            "execute failed, reason=[stream sync timeout]"
        ),
        (
            "The error from device(chipId:5, dieId:0), serial number is 17, hccl fftsplus task "
            "timeout occurred during task execution, stream_id:7"
        ),
        (
            "RuntimeError: npuSynchronizeDevice:torch_npu/csrc/core/npu/NPUStream.cpp:390 NPU "
            "function error: aclrtSynchronizeDevice, error code is 507046"
        ),
        "rtDeviceSynchronize execute failed, reason=[task timeout][FUNC:FuncErrorReason]",
        "torch_npu/csrc/core/npu/NPUStream.cpp:370 NPU error, error code is 107020.",
    ),
    misses=(
        "RuntimeError: NPU function error: aclrtMalloc, error code is 207001",
        "EL0004: Failed to allocate memory.",
    ),
)
