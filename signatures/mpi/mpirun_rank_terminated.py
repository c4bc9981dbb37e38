"""mpirun reports a process that got SIGTERM.

Somebody ended the job: a time limit, scancel or qdel, preemption, Ctrl-C, or another launcher's
clean-up. The rank itself did nothing wrong.

It is merely the first that mpirun noticed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-rank-terminated",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Rank {rank} on {node} was asked to end (signal 15)",
    when=log(
        (
            r"noticed that (?:process|job) rank (?P<rank>\d+) with PID \d+ on node "
            r'"?(?P<node>[^\s"]+)"? exited on signal (?:15|1|2)\b'
        ),
        r"^(?P<node>[\w.-]+): rank (?P<rank>\d+) died from signal (?:15|1|2)\b",
    ),
    means="The job was told to stop; this rank was only the first to be noticed.",
    confidence=0.8,
    gives_way=True,
    next_steps=("Look at the batch system's log for a time limit, preemption or cancellation",),
    matches=(
        "x4502c1s3b0n0.hsn.example.org: rank 17 died from signal 15",
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "15 (Terminated)."
        ),
        (
            "mpirun noticed that process rank 0 with PID 5512 on node node7 exited on signal 2 "
            "(Interrupt)."
        ),
    ),
    misses=(
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "11 (Segmentation fault)."
        ),
    ),
)
