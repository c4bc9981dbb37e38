"""srun reports how a task ended.

A task is a rank when srun starts the ranks itself, and a whole launcher when it starts torchrun
on each node, so the number names no rank for certain. The first line counts.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-task-failed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Task {tasks} on {node} ended: {how}",
    when=log(
        (
            r"srun: error: (?P<node>[^\s:]+): tasks? (?P<tasks>[\d,-]+): (?P<how>Exited with "
            r"exit code \d+|Killed|Segmentation fault|Bus error|Aborted|Illegal instruction)"
        ),
    ),
    means=(
        "srun saw this task end abnormally ({how}). The first such line is the one to follow; "
        "later ones are mostly tasks that srun ended itself."
    ),
    confidence=0.45,
    remedies=("Read that task's own output, from its end upwards.",),
    next_steps=("sacct -j JOB -o JobID,State,ExitCode,NodeList",),
    links=("https://slurm.schedmd.com/srun.html",),
    matches=(
        "srun: error: node17: task 3: Exited with exit code 1",
        "srun: error: node17: tasks 0-3: Killed",
        "srun: error: gpu-04: task 11: Segmentation fault (core dumped)",
    ),
    misses=(
        "srun: error: node17: task 3: Out Of Memory",
        "srun: error: node17: task 3: Terminated",
    ),
)
