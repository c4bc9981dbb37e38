"""The coordination service of XLA names the tasks that did not come to its barrier.

PyTorch/XLA and JAX start their processes through it. Each line below the message is a task that
was waited for; a task's number is that of its process.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="coordination-barrier",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="{who} did not come to the barrier of the coordination service",
    when=log(
        r"^/job:\w+/replica:\d+/task:(?P<rank>\d+)$",
        blames=Blames.NAMED,
    ),
    means=(
        "The processes of the job meet at a barrier, and the service that counts them has not "
        "seen {who} in time: not started, started with another address, dead, or still busy."
    ),
    confidence=0.7,
    remedies=("Start as many processes as the number that each is given, each with its own.",),
    next_steps=("Read the last lines of {who}", "Compare the coordinator's address on all hosts"),
    links=("https://docs.jax.dev/en/latest/multi_process.html",),
    matches=(
        "/job:jax_worker/replica:0/task:3",
        "/job:xla_worker/replica:0/task:12",
    ),
    misses=(
        "/job:jax_worker/replica:0/task:3 has been set to ERROR in coordination service",
        "Timed out task names:",
    ),
    outranks=("uncaught-exception",),
)
