"""Lightning waits until all its processes have joined, and not all have.

Each process prints its number when it begins; when all are there, one line says so. Where that
line never comes, some process was not started, cannot reach the first one, or ended before.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="lightning-members-missing",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Lightning began to set up {size} processes, and they were never all there",
    when=log(
        r"[Ii]nitializing (?:ddp|distributed): GLOBAL_RANK: \d+, MEMBER: \d+/(?P<size>\d\d+|[2-9])",
    ),
    unless=log(r"(?:All distributed processes registered|processes? registered)\. Starting"),
    means=(
        "Each process announces itself and then waits for the others. The line that all {size} "
        "are registered is missing, so the job still waits for at least one of them."
    ),
    confidence=0.5,
    remedies=(
        "Start as many processes as devices times num_nodes, on every host.",
        "Under Slurm: --ntasks-per-node must equal devices, and the script runs under srun.",
    ),
    next_steps=("Count the hosts and processes that print GLOBAL_RANK.",),
    links=("https://lightning.ai/docs/pytorch/stable/clouds/cluster_advanced.html",),
    matches=(
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4",
        "initializing ddp: GLOBAL_RANK: 3, MEMBER: 4/16",
    ),
    misses=(
        "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/1",
        "All distributed processes registered. Starting with 8 processes",
    ),
    gives_way=True,
)
