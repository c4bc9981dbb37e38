"""Two ranks sit on one GPU.

Both processes have their context on it: a missing torch.cuda.set_device(LOCAL_RANK), the same
CUDA_VISIBLE_DEVICES for all, or more processes than GPUs. NCCL refuses it while a communicator is
set up, or hangs; gloo goes on slowly.
"""

from whyhang.analyzer.match import Kind, Signature, shared_by_ranks

SIGNATURE = Signature(
    id="gpu-shared-by-ranks",
    category="duplicate-gpu",
    kind=Kind.CAUSE,
    level="wait",
    title="{ranks} use the same GPU, {gpus}{free}",
    when=shared_by_ranks(),
    means="{ranks} have their memory on {gpus}{free}. NCCL does not allow that.",
    confidence="likely",
    remedies=(
        "Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the first CUDA call.",
        "Start no more processes on a host than it has GPUs; check CUDA_VISIBLE_DEVICES of each.",
    ),
    next_steps=("nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv",),
    links=("https://github.com/NVIDIA/nccl/issues/1241",),
    explains=("stuck-together",),
    gives_way=True,
)
