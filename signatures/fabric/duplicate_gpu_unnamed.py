"""Several ranks of one communicator sit on the same GPU; the message names none.

From NCCL 2.30 the refusal of two ranks on one GPU says how to allow it instead of which ranks
they are. The cause is that of duplicate-gpu: a missing set_device, the same
CUDA_VISIBLE_DEVICES, or more processes than GPUs.

All ranks of the host may print it, so the speakers are not all guilty. The busId of the INIT
lines tells who shares.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="duplicate-gpu-unnamed",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    title="Several ranks share one GPU",
    when=log(
        r"Multiple [Rr]anks (?:detected|are) using the same GPU",
        r"communicator has multiple ranks using the same NVML device",
    ),
    means=(
        "NCCL refuses to set up a communicator in which ranks share a GPU. The ranks concerned "
        "fail and the others wait for them."
    ),
    confidence=0.9,
    remedies=(
        "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first collective.",
        "Start no more processes on a host than it has GPUs.",
        (
            "If the sharing is wanted: NCCL_MULTI_RANK_GPU_ENABLE=1 (experimental) and no "
            "NCCL_NVLS_ENABLE=1."
        ),
    ),
    next_steps=(
        "grep 'busId' LOG  # in the NCCL INFO log: a busId twice on a host is a shared GPU",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node7:4711:4802 [0] graph/topo.cc:1410 NCCL WARN Multiple ranks detected using "
            "the same GPU on this node. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable"
        ),
        (
            "node7:4711:4802 [0] init.cc:912 (initTransportsRank) NCCL WARN Multiple Ranks are "
            "using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this "
            "configuration."
        ),
        (
            "node7:4711:4802 [0] transport/nvls.cc:140 NCCL WARN NCCL_NVLS_ENABLE has been set "
            'to "1" and communicator has multiple ranks using the same NVML device.'
        ),
    ),
    misses=("node7:4711:4802 [0] NCCL INFO NCCL_MULTI_RANK_GPU_ENABLE set by environment to 1.",),
    outranks=("launcher-exit-code",),
)
