"""NCCL cannot allocate host memory by way of cuMem, and gives up.

A container without NUMA rights (SYS_NICE), a kernel without NUMA, or an older driver refuses
it. Newer versions of NCCL say so as INFO and go on with /dev/shm; as a warning it ends the
set-up of the communicator on this rank, and the others wait there.

Two ranks of one job that differ in it run in different containers.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-cumem-host",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="NCCL on {who} cannot allocate host memory with cuMem",
    when=log(
        r"NCCL WARN .*(?:CUMEM Host is not supported|cuMem host allocations? (?:is|are|do) not)",
        blames=Blames.SPEAKER,
    ),
    means="The set-up of a communicator ended on this rank; the others wait for it.",
    confidence=0.6,
    remedies=(
        "Set NCCL_CUMEM_HOST_ENABLE=0 on all ranks.",
        "Give the container the right SYS_NICE (docker run --cap-add SYS_NICE).",
    ),
    next_steps=("cat /sys/devices/system/node/online  # on that host",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        "node3:99:140 [1] allocator.cc:60 NCCL WARN CUMEM Host is not supported on this system",
        (
            "node3:99:140 [1] misc/cudawrap.cc:210 NCCL WARN cuMem host allocation is not "
            "supported on this platform"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO CUMEM Host is not supported on this system",),
    outranks=("launcher-exit-code",),
)
