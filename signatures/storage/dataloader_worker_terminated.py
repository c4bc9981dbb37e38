"""A DataLoader worker ended because the whole job was being stopped.

SIGTERM, SIGHUP and SIGINT reach the whole process group. The main process notices its workers
first and reports them.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="dataloader-worker-terminated",
    category="dataloader-worker-died",
    kind=Kind.CONSEQUENCE,
    title="DataLoader workers were ended together with the job",
    when=log(
        r"DataLoader worker \(pid \d+\) is killed by signal: (?:Terminated|Hangup|Interrupt)",
    ),
    means=(
        "The worker got the signal with which a launcher or a scheduler ends the job. What ended "
        "the job is the question."
    ),
    confidence=0.6,
    next_steps=("Find out who stopped the job",),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Terminated. ",
        "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Hangup. ",
    ),
    misses=("RuntimeError: DataLoader worker (pid 16404) is killed by signal: Killed. ",),
)
