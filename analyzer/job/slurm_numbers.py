"""Where the number of a job of Slurm's stands."""

import re

SLURM_JOB = re.compile(
    r"(?:slurmstepd: error: \*\*\* (?:JOB|STEP) |StepId=|JobId=|srun: job |batch job )(\d{1,10})\b"
)
SLURM_FILE = re.compile(r"(?:^|/)slurm[-_](\d{2,10})(?:[-_.]|$)")
SLURM_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID")
