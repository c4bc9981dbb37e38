"""The program that was to be started does not exist on the node.

Slurm's daemon or the shell looked for torchrun, python or a script and did not find it: a module
that is not loaded, an environment that is not activated in the batch script, another path on
that node, or a missing right to run it. Nothing of the job ever began there.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="program-not-found",
    category="not-distributed",
    kind=Kind.CAUSE,
    title="The program {program} could not be started: {reason}",
    when=log(
        (
            r"slurmstepd: error: execve\(\): (?P<program>.+): "
            r"(?P<reason>No such file or directory|Permission denied|Exec format error)"
        ),
        (
            r"(?:line \d+: |^-?bash: |^/bin/sh: (?:\d+: )?)(?P<program>torchrun|deepspeed|"
            r"accelerate|python3?|mpirun|mpiexec|srun): (?P<reason>command not found|not found)$"
        ),
    ),
    means=(
        "The node has no such program where it was looked for, so nothing of the job began there. "
        "No rank is to blame."
    ),
    confidence=0.85,
    remedies=(
        "Activate the environment or load the module in the batch script, or give the full path.",
    ),
    next_steps=("srun --ntasks-per-node=1 which PROGRAM  # on the nodes of the job",),
    links=("https://slurm.schedmd.com/srun.html",),
    matches=(
        "slurmstepd: error: execve(): torchrun: No such file or directory",
        "slurmstepd: error: execve(): ./train.sh: Permission denied",
        "train.sh: line 9: torchrun: command not found",
        "/bin/sh: 1: deepspeed: not found",
    ),
    misses=(
        "slurmstepd: error: *** STEP 4711.0 ON n1 CANCELLED AT 2026-07-01T10:00:00 ***",
        "train.sh: line 9: nvidia-smi: command not found",
    ),
    outranks=("slurm-task-failed", "launcher-exit-code"),
)
