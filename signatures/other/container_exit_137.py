"""A container's main process was ended by SIGKILL.

With the reason OOMKilled it was memory. With the reason Error it may also be a pod that was
deleted and did not stop in time, or a liveness probe that failed on a process that was hung
already.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="container-exit-137",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="A container ended with code 137 (SIGKILL), most often for memory",
    when=log(
        r"Exit Code:\s+137",
        r"exited with (?:exit )?code 137",
        r"exit code \(?137\b",
        r"\"exitCode\": ?137",
    ),
    means=(
        "137 is 128 plus 9: the main process was killed. Mostly the memory limit; else a forced "
        "stop after the grace period of a deletion or a failed probe."
    ),
    confidence=0.6,
    remedies=(
        (
            "Look at the reason and the events of the pod; raise the memory limit, or the grace "
            "period."
        ),
    ),
    next_steps=("kubectl describe pod POD; docker inspect CONTAINER",),
    links=("https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",),
    matches=(
        "      Exit Code:    137",
        "worker-3 exited with code 137",
        "container failed with exit code 137",
        "[f8107735c673-n0-0] terminated with exit code (137). Reason [Error]. Message:",
        '{"reason": "Error", "exitCode": 137}',
    ),
    misses=(
        "      Exit Code:    1",
        "processed 137 files with exit code 0",
    ),
)
