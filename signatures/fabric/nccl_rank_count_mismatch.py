"""Processes check in at the bootstrap root with different numbers of ranks.

WORLD_SIZE (or the group's size) differs between processes: two launches with the same
rendezvous, a node started with other --nnodes or --nproc-per-node, or a stale process of an old
run that still uses the same id.

The root prints both numbers and gives up; everyone else waits.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-rank-count-mismatch",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    title="Ranks disagree about the size of their communicator",
    when=log(
        r"Bootstrap Root ?: mismatch in (?:rank count|info) from procs",
    ),
    means=(
        "The processes that met do not agree on how many ranks there are: they belong to "
        "different starts or were started with different sizes."
    ),
    confidence=0.95,
    remedies=(
        (
            "Stop all processes of the job on all hosts, then start again with the same "
            "--nnodes and --nproc-per-node everywhere."
        ),
    ),
    next_steps=(
        "Compare WORLD_SIZE in /proc/PID/environ of the ranks",
        "ps -eo pid,lstart,args | grep python  # on all hosts: is one of an older start left?",
    ),
    matches=(
        (
            "node1:40:77 [0] bootstrap.cc:210 NCCL WARN Bootstrap Root : mismatch in rank "
            "count from procs 16 : 8"
        ),
        (
            "node1:40:77 [0] bootstrap.cc:402 NCCL WARN Bootstrap Root : mismatch in info from "
            "procs, nranks 16 vs 8, nroots 1 vs 1, iroot 0"
        ),
    ),
    misses=(
        (
            "node1:40:77 [0] bootstrap.cc:215 NCCL WARN Bootstrap Root : rank 3 of 8 ranks has "
            "already checked in"
        ),
    ),
    outranks=("launcher-exit-code",),
)
