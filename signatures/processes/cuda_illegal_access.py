"""A CUDA kernel of one rank touches memory that is not its own.

The error is reported late, at the next call that synchronizes, so the Python line shown is
often not the guilty one; NCCL's watchdog may be the first to print it. Custom kernels, wrong
sizes after a shape change, tensors freed while a side stream still uses them, or a GPU fault
(then the kernel log has an Xid).
"""

from whyhang.analyzer.match_log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="cuda-illegal-access",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A kernel on {who} accessed memory it must not ({what})",
    when=log(
        r"CUDA error: an (?P<what>illegal memory access) was encountered",
        r"CUDA error: (?P<what>misaligned address)",
        r"CUDA error: an (?P<what>illegal instruction) was encountered",
        r"CUDA error: (?P<what>invalid program counter)",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A CUDA kernel of this process failed; its CUDA context is lost and the process ends. "
        "The other ranks wait for it, or see their connections close."
    ),
    confidence=0.85,
    remedies=(
        "Run once with CUDA_LAUNCH_BLOCKING=1 to see the true line.",
        "compute-sanitizer --tool memcheck finds the kernel.",
        "Check tensors used on side streams: record_stream, or events.",
    ),
    next_steps=(
        (
            "dmesg -T | grep -i xid on that host (31 and 13 come from software, 48, 63, 79 and "
            "others from hardware)"
        ),
    ),
    links=(
        "https://pytorch.org/docs/stable/notes/cuda.html",
        "https://docs.nvidia.com/deploy/xid-errors/index.html",
    ),
    matches=(
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        (
            "[rank3]:[E1206 18:44:16.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) "
            "Rank 3] Process group watchdog thread terminated with exception: CUDA error: an "
            "illegal memory access was encountered"
        ),
        "RuntimeError: CUDA error: misaligned address",
        "torch.AcceleratorError: CUDA error: an illegal instruction was encountered",
        "RuntimeError: CUDA error: invalid program counter",
    ),
    misses=("RuntimeError: CUDA error: device-side assert triggered",),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)
