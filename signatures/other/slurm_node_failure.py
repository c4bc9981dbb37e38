"""Slurm reports that a node failed, and cancels the job step.

Power, kernel panic, a lost network or a hung slurmd. The ranks of that node wrote nothing about
it. Slurm names the node in the 'Node failure on' line; the name after ON in the CANCELLED line
is another one, where the step's record is kept.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-node-failure",
    category="rank-died",
    kind=Kind.CAUSE,
    title="A node of the job failed, says Slurm",
    when=log(
        r"srun: error: Node failure on (?P<node>\S+)",
        r"CANCELLED AT \S+ DUE TO (?:NODE FAILURE|NODE_FAIL)",
        r"error: Aborting, .*missing check-in",
        r"error: Node (?P<node>\S+) not responding, setting DOWN",
        blames=Blames.HOST,
    ),
    means=(
        "Slurm lost contact with a node and cancelled the step. All ranks of that node are gone; "
        "the others could only wait or lose their connections."
    ),
    confidence=0.95,
    remedies=(
        "Exclude the node (--exclude) and resume from the last checkpoint; report it.",
        "Use --requeue, and save checkpoints often.",
    ),
    next_steps=(
        "scontrol show node NODE; sinfo -R",
        "sacct -j JOB -o JobID,State,ExitCode,NodeList",
    ),
    links=("https://slurm.schedmd.com/sbatch.html",),
    matches=(
        "srun: error: Node failure on node1234",
        (
            "slurmstepd: error: *** STEP 194.0 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"
        ),
        "slurmctld: error: Node node12 not responding, setting DOWN",
        "slurmctld: error: Aborting, 1 node is missing check-in",
    ),
    misses=(
        (
            "slurmstepd: error: *** JOB 194 ON node17 CANCELLED AT 2024-03-06T03:17:51 DUE TO "
            "TIME LIMIT ***"
        ),
    ),
)
