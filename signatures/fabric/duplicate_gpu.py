"""Two ranks of one communicator sit on the same GPU.

NCCL compares host and PCI bus id of all ranks when a communicator is set up, and refuses when
two are equal: a missing torch.cuda.set_device(LOCAL_RANK), the same CUDA_VISIBLE_DEVICES for
all ranks, more processes than GPUs, or MIG slices of one GPU.

The device is a bus id in hexadecimal (1b000 is 0000:1b:00.0). The two ranks are numbers of the
communicator, which are global ones for the first (world) communicator. NCCL 2.5 to 2.29 name
them; see duplicate-gpu-unnamed for later ones.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="duplicate-gpu",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    title="Rank {ranks} share one GPU (CUDA device {device})",
    when=log(
        (
            r"Duplicate GPU detected : rank (?P<ranks>\d+ and rank \d+) both on CUDA device "
            r"(?P<device>[0-9a-fA-F]+)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "Two ranks use the same GPU, which NCCL refuses: both fail while the communicator is "
        "set up, and every other rank waits for them."
    ),
    confidence=0.97,
    remedies=(
        "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first collective.",
        (
            "Start no more processes on a host than it has GPUs (--nproc-per-node), and check "
            "CUDA_VISIBLE_DEVICES of each rank."
        ),
        "Pass device_id= to init_process_group so that a wrong binding fails at once.",
    ),
    next_steps=(
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",
        "nvidia-smi -L",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/1241",),
    matches=(
        (
            "node7:4711:4802 [0] init.cc:738 NCCL WARN Duplicate GPU detected : rank 0 and "
            "rank 1 both on CUDA device 1000"
        ),
        (
            "[2025-07-04 11:02:33] node7:4712:4803 [0] init.cc:1023 NCCL WARN Duplicate GPU "
            "detected : rank 5 and rank 1 both on CUDA device 1b000"
        ),
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 50000",
    ),
    misses=(
        (
            "node7:4711:4802 [0] NCCL INFO comm 0x5581a0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 "
            "busId 1000 commId 0x1 - Init START"
        ),
        (
            "node7:4711:4802 [0] init.cc:912 NCCL WARN Multiple Ranks are using the same "
            "GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration."
        ),
    ),
    outranks=("launcher-exit-code",),
)
