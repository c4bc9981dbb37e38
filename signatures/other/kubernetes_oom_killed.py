"""A container was killed because it reached its memory limit.

The limit counts all processes of the pod's container, and /dev/shm when it is an emptyDir in
memory. The pod may have been restarted at once, so that a new process waits at start-up while
the old ranks time out.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kubernetes-oom-killed",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="Kubernetes reports a container killed for using too much memory",
    when=log(
        r"\bOOMKilled\b",
        r"OOMKilling",
    ),
    means=(
        "The container reached its memory limit and the kernel killed it. The ranks in it are "
        "gone, and the others wait for them."
    ),
    confidence=0.93,
    remedies=(
        (
            "Raise the memory limit of the container, or use fewer DataLoader workers and load "
            "in shards."
        ),
        "Count a memory-backed /dev/shm into the limit.",
    ),
    next_steps=(
        "kubectl describe pod POD  # Last State, Reason",
        "kubectl top pod POD; kubectl exec POD -- cat /sys/fs/cgroup/memory.events",
    ),
    links=("https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/",),
    matches=(
        "      Reason:       OOMKilled",
        "train-worker-3   0/1   OOMKilled   0   5m",
        "Warning  OOMKilling  2m  kubelet  Memory cgroup out of memory",
    ),
    misses=("      Reason:       Completed",),
    outranks=(
        "container-exit-137",
        "launcher-saw-sigkill",
    ),
)
