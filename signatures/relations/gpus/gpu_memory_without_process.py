"""A GPU holds memory that no process owns.

A killed job left a context behind: a zombie, a process in a container that is gone, a driver that
has not cleaned up. The next job on it runs out of memory or is kept out.
"""

from whyhang.analyzer.match import Kind, Signature, held_by_nobody

SIGNATURE = Signature(
    id="gpu-memory-without-process",
    category="gpu-oom",
    kind=Kind.CAUSE,
    level="wait",
    title="{held} of memory on {gpus} belong to no process",
    when=held_by_nobody(),
    means=(
        "{held} on {gpus} are taken and no process is listed there, though processes are listed "
        "on other GPUs of the host: what an ended job left behind, or a process that this user "
        "cannot see."
    ),
    confidence="hint",
    remedies=(
        "Look for a process that still has the device open, and end it; else reset the GPU.",
    ),
    next_steps=("fuser -v /dev/nvidia*  # as root, on {hosts}",),
    gives_way=True,
)
