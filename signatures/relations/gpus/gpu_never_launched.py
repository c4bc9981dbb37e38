"""One rank has launched nothing while the kernels of all others wait for it.

All stacks may look alike, standing in the same wait. The GPUs decide: those of the waiting ranks
are at 100 % with little power, as a kernel of NCCL that spins keeps them; that of the missing rank
is at 0 %. Its host has not come to the launch: it is elsewhere, blocked in a CUDA call, loading a
kernel, or waits for another stream.
"""

from whyhang.analyzer.match import Kind, Signature, never_launched

SIGNATURE = Signature(
    id="gpu-never-launched",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {has} launched nothing: {gpus} {is} at {load}, the others at {theirs}",
    when=never_launched(),
    means=(
        "The kernels of the other ranks run and wait: {others} {are} at {theirs}. With {gpus} at "
        "{load}, {who} never launched what they wait for. {why}"
    ),
    confidence="likely",
    remedies=("Look at what {who} does on the host before its launch; the others are healthy.",),
    next_steps=(
        "py-spy dump --native --pid PID  # of {who}, twice",
        "nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -l 1",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/857",),
    explains=("stuck-together",),
)
