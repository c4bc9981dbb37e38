"""The scheduler took the nodes away for another job.

All tasks get SIGTERM, and SIGKILL after a grace time. Errors of collectives around it follow
from that.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-preempted",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Slurm preempted the job",
    when=log(
        r"CANCELLED AT \S+ DUE TO PREEMPTION",
        r"due to preemption and requeued",
    ),
    means="Another job with a higher priority took the nodes. Nothing is wrong with the program.",
    confidence=0.95,
    remedies=(
        "Requeue (--requeue) and resume from the last checkpoint; catch SIGTERM to save one.",
    ),
    next_steps=("sacct -j JOB -o JobID,State,End",),
    links=("https://slurm.schedmd.com/sbatch.html",),
    matches=(
        (
            "slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "PREEMPTION ***"
        ),
        "slurmctld: JobId=194 due to preemption and requeued",
    ),
    misses=("slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 ***",),
)
