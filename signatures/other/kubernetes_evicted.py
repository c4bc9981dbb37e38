"""Kubernetes evicted, preempted or lost a pod of the job.

A full local disk (ephemeral storage), memory pressure, a node that stopped answering,
maintenance, or a spot instance taken back. The remaining pods hang or lose their connections.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kubernetes-evicted",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A pod of the job was evicted or preempted",
    when=log(
        r"The node was low on resource: (?:[\w-]+)",
        r"The node had condition: \[",
        r"Reason:\s+(?:Evicted|Preempted|NodeLost|Shutdown|Terminated by node)",
        r"TaintManagerEviction",
        r"Preempted by (?:pod )?\S+ on node",
        r"Pod ephemeral local storage usage exceeds the total limit",
    ),
    means=(
        "Kubernetes ended a pod for reasons outside of the program: the node ran short of a "
        "resource, was drained or lost, or a pod of higher priority came. Its ranks are gone."
    ),
    confidence=0.92,
    remedies=(
        (
            "Read the event's reason; set requests and limits for what ran short; use a priority "
            "class and a disruption budget."
        ),
        "Resume from the last checkpoint.",
    ),
    next_steps=(
        "kubectl describe pod POD; kubectl get events --sort-by=.lastTimestamp",
        "kubectl describe node NODE",
    ),
    links=("https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",),
    matches=(
        (
            "Message: The node was low on resource: ephemeral-storage. Threshold quantity: 1, "
            "available: 0."
        ),
        "Reason:           Evicted",
        "Evicted: Pod The node had condition: [DiskPressure].",
        (
            "Normal   TaintManagerEviction  5m  taint-eviction-controller  Marking for deletion "
            "Pod ml/train-worker-3"
        ),
        "Warning  Preempted  1m  default-scheduler  Preempted by ml/urgent-0 on node n1",
        "Message: Pod ephemeral local storage usage exceeds the total limit of containers 10Gi.",
    ),
    misses=(
        "Reason:           Completed",
        "Evicted 3 entries from the cache",
    ),
)
