"""Slurm could not start the job's tasks on a node.

An expired credential (the clocks of the nodes differ, or munge stands still), a node that does
not answer, a prolog that failed: the processes of that node never began, and those of other
nodes wait for them at the rendezvous until they give up.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-launch-failed",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Slurm could not start tasks on {node}: {reason}",
    when=log(
        r"srun: error: Task launch for (?:StepId=)?\S+ failed on node (?P<node>[^\s:]+): "
        r"(?P<reason>.+)",
        blames=Blames.HOST,
    ),
    means=(
        "The processes that were to run on {node} never began. Whatever waited for them did so "
        "in vain."
    ),
    confidence=0.85,
    remedies=(
        "Leave the node out (sbatch --exclude) and start again; tell the cluster's operators.",
        "An expired credential means that clocks differ or that munge does not run there.",
    ),
    next_steps=(
        "scontrol show node NODE; sinfo -R",
        "Compare the clocks of that node and of the first one",
    ),
    links=("https://slurm.schedmd.com/troubleshoot.html",),
    matches=(
        "srun: error: Task launch for 36.0 failed on node cn131: Job credential expired",
        (
            "srun: error: Task launch for StepId=3022331.0 failed on node g7: Socket timed out on "
            "send/recv operation"
        ),
    ),
    misses=("srun: error: cn131: task 0: Exited with exit code 2",),
    outranks=("slurm-cancelled", "slurm-task-failed", "launcher-exit-code"),
)
