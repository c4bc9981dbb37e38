"""Kubernetes starts a container again and again, because it ends each time.

Its own log, of the attempt before, says why. The init container of a worker in a PyTorchJob
("init-pytorch") only waits for the name of the master: where it is restarted, the master's pod
or its service is missing.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kubernetes-restarts",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Kubernetes restarts a container of the job that ends each time",
    when=log(
        r"Back-off restarting failed container",
        r"\bCrashLoopBackOff\b",
    ),
    means="A container of the job does not stay up, so its ranks never join or are gone.",
    confidence=0.6,
    next_steps=(
        "kubectl logs POD --all-containers --previous",
        "kubectl get pods,svc  # init-pytorch waits for the master: is it there?",
    ),
    matches=(
        (
            "  Warning  BackOff  2m49s  kubelet  Back-off restarting failed container "
            "init-pytorch in pod train-worker-0_ml(8d6860a7)"
        ),
        "train-worker-1   0/1   CrashLoopBackOff   7   12m",
    ),
    misses=("  Normal   Started  2m34s  kubelet  Started container init-pytorch",),
    gives_way=True,
)
