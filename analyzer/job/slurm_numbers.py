"""Where the number of a job of Slurm's stands, and which of its rows are of this one."""

import re
from collections.abc import Collection, Iterable, Mapping

from whyhang.analyzer.facts import LastLine, Scheduled
from whyhang.analyzer.job.records import Job

_JOB = re.compile(
    r"(?:slurmstepd: error: \*\*\* (?:JOB|STEP) |StepId=|JobId=|srun: job |batch job )(\d{1,10})\b"
)
_FILE = re.compile(r"(?:^|/)slurm[-_](\d{2,10})(?:[-_.]|$)")
_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOBID")


def number_told(
    environs: Iterable[Mapping[str, str]], lines: Iterable[str], files: Iterable[str]
) -> str | None:
    """Return the number of a job, if all that tells one tells the same.

    What the environment of its processes says goes first, then Slurm's own lines in the logs, then
    the names that sbatch gives to files.
    """
    variables = {environ.get(name, "") for environ in environs for name in _VARIABLES} - {""}
    told = {number for line in lines for number in _JOB.findall(line)}
    named = {number for file in files for number in _FILE.findall(file)}
    return sole(variables or told or named)


def sole(numbers: Collection[str]) -> str | None:
    """Return the one number that there is; None for none, and for several."""
    return next(iter(numbers)) if len(numbers) == 1 else None


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
