"""Where the number of a job of Slurm's stands, and which of its rows are of this one."""

import re

from whyhang.analyzer.facts import LastLine, Scheduled
from whyhang.analyzer.job.records import Job

SLURM_JOB = re.compile(
    r"(?:slurmstepd: error: \*\*\* (?:JOB|STEP) |StepId=|JobId=|srun: job |batch job )(\d{1,10})\b"
)
SLURM_FILE = re.compile(r"(?:^|/)slurm[-_](\d{2,10})(?:[-_.]|$)")
SLURM_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID")


def own_slurm_rows(job: Job) -> tuple[Scheduled, ...]:
    """Return the last row of each job and step of Slurm that is this job's.

    That is the only job shown, or the one whose number the logs or their names hold.
    """
    jobs = (row for row in job.of(Scheduled) if row.kind == "job")
    rows = {row.name: row for row in jobs if row.name[:1].isdigit()}
    numbers = {re.split(r"\D", name, maxsplit=1)[0] for name in rows}
    if len(numbers) > 1:
        files = {end.source.file for end in job.of(LastLine)}
        words = " ".join((*files, *(line.text for line in job.lines)))
        numbers = {n for n in numbers if re.search(rf"(?<!\d){n}(?!\d)", words)}
    return tuple(row for row in rows.values() if name_of_job(row) in numbers and len(numbers) == 1)


def name_of_job(row: Scheduled) -> str:
    """Return the number of a row's job, without that of its step."""
    return re.split(r"\D", row.name, maxsplit=1)[0]
