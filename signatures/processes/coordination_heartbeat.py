"""The coordination service of XLA has not heard from a task for some time.

PyTorch/XLA and JAX processes send it heartbeats. Without them a task counts as dead, and the
service ends all others.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="coordination-heartbeat",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The coordination service no longer hears from {who}",
    when=log(
        r"Task /job:\w+/replica:\d+/task:(?P<rank>\d+) heartbeat timeout",
        blames=Blames.NAMED,
    ),
    means=(
        "{who} sent no heartbeat for as long as is allowed: dead, cut off, or unable to run "
        "for that long. The other tasks are ended for it."
    ),
    confidence=0.7,
    remedies=(
        "Find what ended {who}, or what kept it from running; start the job again from there.",
    ),
    next_steps=("Read the last lines of {who}, and the kernel's log of its host",),
    links=("https://docs.jax.dev/en/latest/fault_tolerance.html",),
    matches=(
        (
            "UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates "
            "that the remote task has failed, got preempted, or crashed unexpectedly."
        ),
        (
            "/job:w/replica:0/task:0 has been set to ERROR in coordination service: UNAVAILABLE: "
            "Task /job:w/replica:0/task:0 heartbeat timeout"
        ),
    ),
    misses=("/job:jax_worker/replica:0/task:3", "heartbeat timeout = 100s"),
)
