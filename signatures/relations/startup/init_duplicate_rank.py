"""Two processes say that they are the same rank.

A launch script that counts wrongly, two copies of a job on one port, SLURM_PROCID next to
RANK: the number that is claimed twice is missing elsewhere, and init_process_group waits for
the missing one.
"""

from whyhang.analyzer.match import Kind, Signature, same_rank

SIGNATURE = Signature(
    id="init-duplicate-rank",
    category="init-duplicate-rank",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {is} claimed by several processes ({pids}){missing}",
    when=same_rank(),
    means=(
        "Several processes say that they are {who} ({pids}){missing}. Each rank must be one "
        "process.{starts}"
    ),
    confidence="certain",
    remedies=(
        "Give each process its own RANK; let torchrun or srun number them.",
        "If two copies of the job run, end one and use another MASTER_PORT.",
    ),
    next_steps=("tr '\\0' '\\n' < /proc/{pid}/environ | grep -E 'RANK|MASTER'  # of each",),
    explains=(
        "init-joins-too-many",
        "init-missing-rank",
        "missing-rank-in-collective",
        "rank-died",
    ),
)
