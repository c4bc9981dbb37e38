"""The hosts of a Slurm job, as squeue and sinfo name them; srun reaches each of them.

Each host gets a step of its own, one task beside those that run (``--overlap``). One srun for all
would be shorter, but a single node whose slurmd does not answer ends it for all of them, with
``--no-kill`` too ("Application launch failed", Slurm 22.05). What Slurm prints of the job and of
its nodes is evidence as well; ``collectors/cluster`` reads it.
"""

import os
import re
from collections.abc import Iterable, Mapping

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Record, counted, whole
from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.collectors.hosts.reach import Reach, ReachedHost, Selector
from whyhang.collectors.live.programs import Outcome, TimedCommand, run, run_all

LIMIT = 10.0
"""Seconds that slurmctld has to answer."""

PATIENCE = 15.0
"""Seconds for a step's first sign of life: srun tries a dead slurmd for ten."""

MOST_NAMED = 12

_NAME = re.compile(r"(?P<job>\d+(?:[_+]\d+)?)(?:\.(?P<step>\d+))?")
_SRUN = re.compile(
    r"^StepId=(?P<step>\S+)\s(?:(?!^StepId=).)*?SrunHost:Pid=(?P<host>[^\s:]+):(?P<pid>\d+)$",
    re.MULTILINE | re.DOTALL,
)
_JOB_FORMAT = "%i|%A|%T|%N|%r"
_JOB_NAMES = ("NAME", "JOBID", "STATE", "NODELIST", "REASON")
_STEP_FORMAT = "%i|%A|%N|%j"
_NODE_FORMAT = "%N|%T|%E"
_SERVES = {"RUNNING", "COMPLETING"}
_HELD = {"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "STOPPED"}
"""Nothing can be run in such a job, which by itself says why it does not move."""


class SlurmStep(Record):
    """A job by its number ("12", "12_3" of an array) and a step of it; None: the whole job."""

    job: str
    step: str | None = None

    def __str__(self) -> str:
        return self.job if self.step is None else f"{self.job}.{self.step}"


class _Row(Record):
    """A step that runs, as squeue shows it."""

    step: str
    tasks: int
    hosts: tuple[str, ...]
    program: str


def named(text: str) -> SlurmStep:
    """Read JOB[.STEP] as Slurm writes it. Raises ``TargetError``."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise TargetError(
            f"{text} is no job of Slurm",
            "Give its number, and that of a step if you like: --slurm 1234 or --slurm 1234.0.",
        )
    return SlurmStep(job=match["job"], step=match["step"])


def of_process(environ: Mapping[str, str]) -> SlurmStep | None:
    """Return the job and step that a process says it is in; None where it is in none.

    What a batch script starts without srun (torchrun, ssh) is in no numbered step.
    """
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
    if not job.isdecimal():
        return None
    numbered = step.isdecimal() and int(step) < 1 << 31  # above: batch, extern, interactive
    return SlurmStep(job=job, step=step if numbered else None)


def of_srun(steps: str, host: str, pid: int) -> SlurmStep | None:
    """Return the step that an srun on this host started, as ``scontrol show step`` names it."""
    for match in _SRUN.finditer(steps):
        if match["pid"] == str(pid) and match["host"].partition(".")[0] == host.partition(".")[0]:
            return named(match["step"])
    return None


def started_by(pid: int) -> SlurmStep | None:
    """Ask Slurm which step an srun on this host started."""
    asked = run("scontrol", "show", "step", limit=LIMIT)
    return of_srun(_text(asked), os.uname().nodename, pid)


def reach(step: SlurmStep) -> Reach:
    """Ask Slurm for the hosts of a job that runs.

    Raises ``TargetError`` where there is no such job, or it has ended, or Slurm does not answer.
    """
    jobs, steps, job = run_all(
        TimedCommand(arguments=arguments, limit=LIMIT)
        for arguments in (
            ("squeue", "--noheader", f"--jobs={step.job}", f"--format={_JOB_FORMAT}"),
            ("squeue", "--noheader", "--steps", f"--jobs={step.job}", f"--format={_STEP_FORMAT}"),
            ("scontrol", "show", "job", step.job),
        )
    )
    if jobs.code != 0 or not jobs.output.strip():
        raise _not_known(step, jobs)
    rows = _text(jobs).splitlines()
    if len(rows) > 1:
        there = ", ".join(one.partition("|")[0] for one in rows[:MOST_NAMED])
        raise TargetError(
            f"Slurm job {step.job} is an array or has several parts", f"Give one of them: {there}."
        )
    row = dict(zip(_JOB_NAMES, rows[0].split("|"), strict=False))
    printed = [("scontrol-show-job.txt", job.output)]
    if row["NODELIST"]:
        wanted = f"--nodes={row['NODELIST']}"
        nodes = run("sinfo", wanted, f"--format={_NODE_FORMAT}", limit=LIMIT)
        printed.append(("sinfo.txt", nodes.output))
    return plan(step, row, _text(steps), printed)


def plan(
    step: SlurmStep, row: Mapping[str, str], steps: str, printed: Iterable[tuple[str, bytes]] = ()
) -> Reach:
    """Return the way to each host of a job, of which ``row`` is squeue's and ``steps`` its steps.

    Of several steps that run at the same time the one with the most tasks is meant, and the
    others are named. Raises ``TargetError`` where the job or the step does not run.
    """
    job, state = row["JOBID"], row["STATE"]
    kept = tuple((name, data) for name, data in printed if data.strip())
    if state in _HELD:
        why = f" ({row['REASON']})" if row["REASON"] not in {"", "None"} else ""
        return Reach(
            kind="slurm",
            sentence=f"no node of Slurm job {step.job}, which is {state}{why}",
            hosts=(),
            printed=kept,
        )
    if state not in _SERVES:
        raise TargetError(
            f"Slurm job {step.job} does not run: it is {state}", _other_evidence(step)
        )
    running = _rows(steps)
    chosen = _chosen(step, running)
    hosts = chosen.hosts if chosen else expand(row["NODELIST"])
    environ = (("SLURM_JOB_ID", job), *((("SLURM_STEP_ID", chosen.step),) if chosen else ()))
    name = f"{step.job}.{chosen.step}" if chosen else step.job
    return Reach(
        kind="slurm",
        sentence=f"{counted(len(hosts), 'node')} of Slurm job {name} by srun",
        hosts=tuple(ReachedHost(name=host, argv=srun(job, host)) for host in hosts),
        selector=Selector(environ=environ),
        gaps=tuple(
            Gap(
                what=f"step {other.step} ({other.program}) of Slurm job {step.job}",
                why="it runs beside the step that was looked at, with "
                f"{counted(other.tasks, 'task')}",
                remedy=f"whyhang --slurm {step.job}.{other.step}",
            )
            for other in running
            if chosen is not None and other.step != chosen.step
        ),
        patience=PATIENCE,
        printed=kept,
    )


def srun(job: str, host: str) -> tuple[str, ...]:
    """Return the command that runs one task on one host of a job, beside what runs there.

    It leaves the job's own tasks their CPUs, GPUs and MPI, and does not stand in a folder that a
    file server may have lost.
    """
    where = (f"--jobid={job}", "--overlap", f"--nodelist={host}", "--nodes=1", "--ntasks=1")
    return ("srun", *where, "--cpu-bind=none", "--mpi=none", "--chdir=/")


def _rows(steps: str) -> list[_Row]:
    """Read the steps that have a number: others only hold the allocation."""
    cells = [line.strip().split("|", 3) for line in steps.splitlines()]
    return [
        _Row(
            step=row[0].rpartition(".")[2],
            tasks=whole(row[1]) or 0,
            hosts=expand(row[2]),
            program=row[3],
        )
        for row in cells
        if len(row) == 4 and row[0].rpartition(".")[2].isdecimal() and "." in row[0]
    ]


def _chosen(step: SlurmStep, running: list[_Row]) -> _Row | None:
    if step.step is None:
        return max(running, key=lambda one: (one.tasks, -int(one.step)), default=None)
    same = next((one for one in running if one.step == step.step), None)
    if same is None:
        there = ", ".join(f"{step.job}.{one.step} ({one.program})" for one in running)
        raise TargetError(
            f"Slurm job {step.job} has no step {step.step} that runs",
            f"Steps that run: {there}." if there else f"Give the job alone: --slurm {step.job}.",
        )
    return same


def _text(outcome: Outcome) -> str:
    return outcome.output.decode(errors="replace")


def _not_known(step: SlurmStep, asked: Outcome) -> TargetError:
    errors = asked.errors.strip()
    if asked.timed_out:
        return TargetError(
            f"Slurm did not answer within {LIMIT:g} s",
            "Ask it: scontrol ping. Without it, look at each host by itself: "
            "whyhang collect PID -o HOST.tar.zst, and then whyhang at the folder of all of them.",
        )
    if "Invalid job id" in errors or asked.code == 0:
        return TargetError(f"Slurm has no job {step.job} that runs", _other_evidence(step))
    return TargetError(
        # The last of its lines says what the ones before came to.
        f"Slurm cannot be asked for job {step.job}: {(errors or 'squeue failed').splitlines()[-1]}",
        "Run whyhang where squeue and srun work: on the login node, or on a node of the job.",
    )


def _other_evidence(step: SlurmStep) -> str:
    return (
        f"How it ended: sacct -j {step.job} --format=JobID,State,ExitCode,NodeList. "
        "Its output and that table, in one folder, tell more: whyhang FOLDER."
    )
