"""The job step was cancelled, by hand or because one of its tasks failed.

With --kill-on-bad-exit srun ends all tasks when one fails; the first 'task N: Exited' line is
then the one that counts. A person who cancels a hung job leaves the same line.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-cancelled",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The job was cancelled through Slurm",
    when=log(
        r"CANCELLED AT [\dT:-]+ \*\*\*",
        r"srun: (?:Force Terminated|Terminating) (?:job|Step)",
        r"srun: Job step aborted: Waiting up to \d+ seconds",
    ),
    unless=log(r"CANCELLED AT \S+ DUE TO "),
    means=(
        "Someone, or srun after a task had failed, cancelled the step. The cause lies before it."
    ),
    confidence=0.5,
    next_steps=(
        "Look for the first 'srun: error: ... task' line",
        "sacct -j JOB -o JobID,State,ExitCode,User",
    ),
    links=("https://slurm.schedmd.com/srun.html",),
    matches=(
        "slurmstepd: error: *** STEP 194.0 ON node17 CANCELLED AT 2024-03-06T03:17:51 ***",
        "srun: Job step aborted: Waiting up to 62 seconds for job step to finish.",
        "srun: Terminating StepId=194.0",
        "srun: Force Terminated job 194",
    ),
    misses=(
        (
            "slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "TIME LIMIT ***"
        ),
    ),
)
