"""Ray reports that an actor's process is gone.

Ray's own words for it list the usual reasons: killed by SIGKILL (out of memory), a crash in
native code, or a call of exit. The worker's own log file holds the last words.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ray-actor-died",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A Ray worker process died",
    when=log(
        r"RayActorError: The actor died (?:unexpectedly|because of)",
        r"ActorDiedError: ",
        r"A worker died or was killed while executing a task by an unexpected system error",
    ),
    means=(
        "Ray lost the process of an actor. If it was a rank of the job, the others wait for it "
        "in their next collective."
    ),
    confidence=0.6,
    remedies=(
        "Read the worker's log under /tmp/ray/session_latest/logs on its node.",
        "Check the node's memory and the kernel log.",
    ),
    next_steps=("ray logs 'worker-*.err'; dmesg -T | grep -i 'killed process'",),
    matches=(
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
        (
            "A worker died or was killed while executing a task by an unexpected system error. "
            "To troubleshoot the problem, check the logs for the dead worker."
        ),
    ),
    misses=("ray.exceptions.RayTaskError(ValueError): ray::train() (pid=4711)",),
)
