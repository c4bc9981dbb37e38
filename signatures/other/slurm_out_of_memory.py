"""The memory that Slurm granted was used up, and a process was killed.

The limit counts all processes of the job on that node together, with page cache that cannot be
given back. The line names the node and the step and no rank; the killed process may be a
DataLoader worker. Where srun reports the end of a single task, that is the one to look at.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="slurm-out-of-memory",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="Slurm killed a process of the job for using too much memory",
    when=log(
        r"Detected \d+ oom[-_]kill events? in ",
        r"Some of your (?:processes|step tasks) (?:may )?have been (?:OOM )?[Kk]illed",
        r"srun: error: \S+: tasks? [\d,-]+: Out Of Memory",
        r"Exceeded (?:job|step) memory limit",
        blames=Blames.ENDED,
    ),
    means=(
        "The memory limit of the job (cgroup) was reached on a node and the kernel killed a "
        "process there: a rank, or one of its DataLoader workers. The others wait for it."
    ),
    confidence=0.93,
    remedies=(
        "Ask for more memory (--mem, --mem-per-cpu), or --exclusive with --mem=0.",
        "Load checkpoints on one rank at a time; use fewer DataLoader workers.",
    ),
    next_steps=(
        "sacct -j JOB -o JobID,MaxRSS,MaxRSSNode,MaxRSSTask,ReqMem,State",
        "dmesg -T | grep -i 'killed process'  # on that node",
    ),
    links=("https://slurm.schedmd.com/sbatch.html",),
    matches=(
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=194.0. Some of the step "
            "tasks have been OOM Killed."
        ),
        (
            "slurmstepd: error: Detected 3 oom-kill event(s) in StepId=194.batch cgroup. Some of "
            "your processes may have been killed by the cgroup out-of-memory handler."
        ),
        "srun: error: node17: task 3: Out Of Memory",
        "slurmstepd: error: Exceeded job memory limit",
    ),
    misses=("srun: error: node17: task 3: Exited with exit code 1",),
    outranks=(
        "launcher-saw-sigkill",
        "failure-row-sigkill",
        "slurm-task-failed",
        "launcher-child-sigkill",
    ),
)
