"""From what Slurm prints to the nodes of a job; no Slurm is needed for it."""

from __future__ import annotations

import pytest

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.hosts import remote_host
from whyhang.collectors.hosts.planners import slurm
from whyhang.collectors.hosts.planners.slurm import SlurmStep

ROW = {"NAME": "12", "JOBID": "12", "STATE": "RUNNING", "NODELIST": "n[1-3]", "REASON": "None"}
STEPS = "12.batch|1|n1|batch\n12.0|6|n[1-3]|python\n12.1|1|n2|bash\n12.extern|3|n[1-3]|extern\n"
SHOWN = """\
StepId=12.batch UserId=0 StartTime=2026-11-22T19:24:29 TimeLimit=UNLIMITED
   State=RUNNING Partition=all NodeList=n1
   SrunHost:Pid=(null):0

StepId=12.0 UserId=0 StartTime=2026-11-22T19:24:29 TimeLimit=UNLIMITED
   State=RUNNING Partition=all NodeList=n[1-3]
   Nodes=3 CPUs=6 Tasks=6 Name=python Network=(null)
   SrunHost:Pid=login1:26403
"""


def test_the_step_with_the_ranks_is_chosen_and_the_others_are_named() -> None:
    """A shell that someone has open in the job is not the job."""
    reach = slurm.plan(slurm.named("12"), ROW, STEPS)

    assert reach.sentence == "3 nodes of Slurm job 12.0 by srun"
    assert [host.name for host in reach.hosts] == ["n1", "n2", "n3"]
    assert reach.selector.environ == (("SLURM_JOB_ID", "12"), ("SLURM_STEP_ID", "0"))
    assert [gap.remedy for gap in reach.gaps] == ["whyhang --slurm 12.1"]


def test_each_node_gets_a_step_of_its_own() -> None:
    """One srun for all ends everywhere when a single slurmd does not answer."""
    reach = slurm.plan(slurm.named("12"), ROW, STEPS)

    assert not reach.together
    assert " ".join(reach.hosts[1].command(("true",))) == (
        "srun --jobid=12 --overlap --nodelist=n2 --nodes=1 --ntasks=1 "
        "--cpu-bind=none --mpi=none --chdir=/ true"
    )


def test_a_job_that_runs_no_step_is_looked_at_on_all_its_nodes() -> None:
    """A batch script that starts torchrun by ssh has no step but its own."""
    reach = slurm.plan(slurm.named("12"), ROW, "12.batch|1|n1|batch\n")

    assert len(reach.hosts) == 3
    assert reach.selector.environ == (("SLURM_JOB_ID", "12"),)


def test_an_element_of_an_array_is_reached_by_its_own_number() -> None:
    """What squeue shows is 12_3, srun and the environment know 15."""
    row = {**ROW, "NAME": "12_3", "JOBID": "15"}
    reach = slurm.plan(slurm.named("12_3"), row, "12_3.0|6|n[1-3]|python\n")

    assert reach.hosts[0].argv[1] == "--jobid=15"
    assert reach.selector.environ == (("SLURM_JOB_ID", "15"), ("SLURM_STEP_ID", "0"))


@pytest.mark.parametrize("state", ["PENDING", "SUSPENDED"])
def test_a_job_in_which_nothing_can_run_is_evidence(state: str) -> None:
    """Its state says why it does not move."""
    row = {**ROW, "STATE": state, "REASON": "Resources"}
    reach = slurm.plan(slurm.named("12"), row, "", [("scontrol-show-job.txt", b"JobId=12\n")])

    assert reach.hosts == ()
    assert reach.printed == (("scontrol-show-job.txt", b"JobId=12\n"),)
    assert reach.sentence == f"no node of Slurm job 12, which is {state} (Resources)"


@pytest.mark.parametrize(
    ("asked", "row", "words"),
    [("12.7", ROW, "no step 7"), ("12", {**ROW, "STATE": "COMPLETED"}, "COMPLETED")],
)
def test_what_does_not_run_is_reported(asked: str, row: dict[str, str], words: str) -> None:
    """With what to do instead."""
    with pytest.raises(TargetError) as caught:
        slurm.plan(slurm.named(asked), row, STEPS)

    assert words in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "n1", "12.x", "12 13", "-12", "12.0.0", "--help"])
def test_what_is_no_job_is_refused(text: str) -> None:
    """Nothing but numbers gets onto a command line."""
    with pytest.raises(TargetError):
        slurm.named(text)


@pytest.mark.parametrize(
    ("environ", "step"),
    [
        ({"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"}, SlurmStep(job="12", step="0")),
        ({"SLURM_JOBID": "12"}, SlurmStep(job="12")),
        ({"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "4294967291"}, SlurmStep(job="12")),
        ({"SLURM_JOB_ID": "12; reboot"}, None),
        ({}, None),
    ],
)
def test_a_process_says_which_job_it_is_in(environ: dict[str, str], step: SlurmStep | None) -> None:
    """The batch script is in no step that has several nodes."""
    assert slurm.of_process(environ) == step


def test_an_srun_on_the_login_side_is_known_by_its_pid() -> None:
    """It has no SLURM_JOB_ID itself."""
    assert slurm.of_srun(SHOWN, "login1.cluster", 26403) == SlurmStep(job="12", step="0")
    assert slurm.of_srun(SHOWN, "login2", 26403) is None
    assert slurm.of_srun(SHOWN, "login1", 26404) is None


def test_what_srun_says_becomes_a_reason_and_a_remedy() -> None:
    """Its last line ("Job step aborted") says nothing."""
    errors = (
        "srun: error: Task launch for StepId=1.4 failed on node n3: Communication connection "
        "failure\nsrun: error: Application launch failed: Communication connection failure\n"
        "srun: Job step aborted\n"
    )
    gap = remote_host.ended("n3", "slurm", 1, errors, alive=False)

    assert "slurmd does not answer" in gap.why
    assert "scontrol show node n3" in gap.remedy
