"""Every rank has reached the same operation and none comes back.

The program did its part: all arrived. What is left is below it, the network, NCCL, a GPU, or
arguments that differ in a way stacks do not show (shape, dtype, group). GPU state, NCCL's
warnings and the recorder decide.
"""

from whyhang.analyzer.match import Kind, Signature, all_arrived

SIGNATURE = Signature(
    id="stuck-together",
    category="unknown",
    kind=Kind.CAUSE,
    level="wait",
    title="{says}",
    when=all_arrived(),
    means=(
        "Everyone that was seen is inside {call}; no rank is missing. The cause lies below the "
        "program (network, NCCL, GPU) or in arguments that stacks do not show (shape, dtype, "
        "group)."
    ),
    confidence="possible",
    remedies=(
        "Look at the GPUs and links of all hosts before the code: nvidia-smi, dmesg, ibstat.",
        "Rule out a shape or group mismatch with a flight-recorder dump.",
    ),
    next_steps=(
        (
            "If it is the first collective on NCCL, try one switch at a time; the one that helps "
            "names the cause: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1, "
            "NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0."
        ),
        "nvidia-smi; dmesg -T | grep -iE 'NVRM|Xid|mlx5|oom'  # on every host",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)
