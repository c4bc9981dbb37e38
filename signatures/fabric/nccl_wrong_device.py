"""A rank gives NCCL a tensor that lives on another GPU than its communicator.

Mostly a missing torch.cuda.set_device(LOCAL_RANK): tensors made with device="cuda" go to GPU 0
on every rank. NCCL checks it only with NCCL_CHECK_POINTERS=1 or NCCL_CHECK_MODE.

The call fails on this rank and all others wait in the collective. The numbers are local device
indices, not ranks.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-wrong-device",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} passed NCCL a buffer of GPU {buffer_device} for a communicator of GPU {device}",
    when=log(
        (
            r"\w+ : \w+ allocated on device (?P<buffer_device>-?\d+) mismatche?s with NCCL "
            r"device (?P<device>\d+)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "A tensor of this rank is on the wrong GPU, so NCCL refuses its call. The rank raises "
        "while the others wait for it."
    ),
    confidence=0.85,
    remedies=(
        (
            "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before any tensor is "
            "made, and use that device for all of them."
        ),
    ),
    next_steps=(
        "Print tensor.device and torch.cuda.current_device() before the call on each rank",
    ),
    matches=(
        (
            "node7:4711:4802 [3] misc/argcheck.cc:24 NCCL WARN AllReduce : sendbuff allocated "
            "on device 0 mismatchs with NCCL device 3"
        ),
        "Broadcast : recvbuff allocated on device 1 mismatchs with NCCL device 0",
    ),
    misses=(
        "node7:4711:4802 [3] misc/argcheck.cc:12 NCCL WARN AllReduce : sendbuff argument is NULL",
    ),
    outranks=("launcher-exit-code",),
)
