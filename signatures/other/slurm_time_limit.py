"""The job reached Slurm's time limit.

If the log shows steps up to the end, it was only long. If it had been silent for hours, it
hung, and this line is the end and not the cause.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-time-limit",
    category="slow-not-hung",
    kind=Kind.CONSEQUENCE,
    title="Slurm ended the job at its time limit",
    when=log(
        r"CANCELLED AT \S+ DUE TO TIME LIMIT",
    ),
    means=(
        "The job used up its time. A job that hung ends like this as well, so what its log did "
        "before is what counts."
    ),
    confidence=0.5,
    next_steps=("Compare the time of the last training step with the end",),
    links=("https://slurm.schedmd.com/sbatch.html",),
    matches=(
        (
            "slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "TIME LIMIT ***"
        ),
        (
            "slurmstepd: error: *** STEP 194.0 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "TIME LIMIT ***"
        ),
    ),
    misses=(
        (
            "slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "PREEMPTION ***"
        ),
    ),
)
