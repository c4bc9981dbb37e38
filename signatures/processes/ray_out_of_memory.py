"""Ray's memory monitor kills the newest workers when a node is nearly out of memory.

The threshold is 95 % of the node's memory by default. The message lists the largest processes,
which are not always the killed one.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ray-out-of-memory",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="Ray killed a worker because its node ran low on memory",
    when=log(
        r"ray\.exceptions\.OutOfMemoryError: ",
        r"Workers \(tasks / actors\) killed due to memory pressure \(OOM\)",
    ),
    means=(
        "Ray's memory monitor ended a worker before the kernel would. If it was a rank of the "
        "job, the others wait for it."
    ),
    confidence=0.92,
    remedies=(
        "Give tasks more memory (num_cpus or memory=), or start fewer per node.",
        "Find what grows: a dataset in every worker, object store spilling.",
    ),
    next_steps=("ray memory; free -g  # on that node",),
    matches=(
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        (
            "(raylet) 2 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers "
            "crashed due to other reasons at node"
        ),
    ),
    misses=(
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
    ),
    outranks=("ray-actor-died",),
)
