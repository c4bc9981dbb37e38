"""The program breaks a rule of NCCL's API.

Groups that mix blocking and non-blocking communicators or captured and uncaptured streams, a
group end without a start, a non-blocking communicator used before its set-up has finished, host
threads that race to launch on one device. NCCL returns ncclInvalidUsage to this rank.

torch keeps these rules itself; they break with custom CUDA graphs, several threads that issue
collectives, or extensions that call NCCL.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-api-misuse",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="{who} used NCCL in a way it refuses",
    when=log(
        r"Blocking and nonblocking communicators are not allowed in the same group",
        r"ncclGroupEnd: not in a group call",
        r"Either none or all communicators in a ncclGroup\(\) can be CUDA graph captured",
        r"Streams given to a communicator within a NCCL group must either be all uncaptured",
        r"Attempt to use communicator before the previous operation returned ncclSuccess",
        r"host threads racing to launch NCCL on same device",
        blames=Blames.SPEAKER,
    ),
    means="NCCL refused this rank's call. The ranks whose calls were accepted wait for it.",
    confidence=0.75,
    remedies=(
        "Issue collectives of one device from one thread, in the same order on all ranks.",
        "Capture either all collectives of a group in a CUDA graph or none.",
        "Wait for a non-blocking communicator to be ready before using it.",
    ),
    next_steps=("Look for the first Python traceback of this rank",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/groups.html",),
    matches=(
        "node7:4711:4802 [0] group.cc:610 NCCL WARN ncclGroupEnd: not in a group call.",
        (
            "node7:4711:4802 [0] init.cc:220 NCCL WARN Attempt to use communicator before the "
            "previous operation returned ncclSuccess"
        ),
        (
            "node7:4711:4802 [0] enqueue.cc:2010 NCCL WARN Streams given to a communicator "
            "within a NCCL group must either be all uncaptured or all captured by the same "
            "graph."
        ),
        (
            "node7:4711:4802 [0] misc/strongstream.cc:201 NCCL WARN Fatal: host threads racing "
            "to launch NCCL on same device."
        ),
        (
            "node7:4711:4802 [0] group.cc:120 NCCL WARN Blocking and nonblocking communicators "
            "are not allowed in the same group."
        ),
        (
            "node7:4711:4802 [0] enqueue.cc:900 NCCL WARN Either none or all communicators in "
            "a ncclGroup() can be CUDA graph captured."
        ),
    ),
    misses=("node7:4711:4802 [0] NCCL INFO NCCL_LAUNCH_RACE_FATAL set by environment to 1.",),
    outranks=("launcher-exit-code",),
)
