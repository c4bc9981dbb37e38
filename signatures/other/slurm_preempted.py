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
    title="Slurm took the nodes away (preemption or requeue)",
    when=log(
        r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|JOB REQUEUE)",
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
        "slurmstepd: error: *** JOB 8 ON n CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***",
        "slurmctld: JobId=194 due to preemption and requeued",
    ),
    misses=("slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 ***",),
)
