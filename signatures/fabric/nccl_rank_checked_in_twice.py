"""Two processes claim the same rank.

The bootstrap root counts every rank once. RANK is the same in two processes: a job script
exports it, two launches share a rendezvous, node_rank is the same on two nodes, or an old
process still lives.

The number is a rank of the communicator, global for the world communicator. The rank that
nobody claims is missing.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-rank-checked-in-twice",
    category="init-duplicate-rank",
    kind=Kind.CAUSE,
    title="Rank {rank} is claimed by two processes",
    when=log(
        r"Bootstrap Root ?: rank (?P<rank>\d+) of (?P<size>\d+) ranks has already checked in",
        blames=Blames.NAMED,
    ),
    means=(
        "Two processes came with the same rank number, so another rank never arrives and "
        "set-up cannot finish."
    ),
    confidence=0.97,
    remedies=(
        (
            "Give each node its own --node-rank (or use the c10d rendezvous) and do not export "
            "RANK by hand."
        ),
        "Stop left-over processes on all hosts.",
    ),
    next_steps=("Compare RANK in /proc/PID/environ of all processes of the job on all hosts",),
    matches=(
        (
            "node1:40:77 [0] bootstrap.cc:215 NCCL WARN Bootstrap Root : rank 3 of 8 ranks has "
            "already checked in"
        ),
        "Bootstrap Root : rank 0 of 16 ranks has already checked in",
    ),
    misses=(
        (
            "node1:40:77 [0] bootstrap.cc:210 NCCL WARN Bootstrap Root : mismatch in rank "
            "count from procs 16 : 8"
        ),
    ),
    outranks=("launcher-exit-code",),
)
