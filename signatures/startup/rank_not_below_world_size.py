"""A process has a rank that does not exist in the world size it was given.

RANK and WORLD_SIZE come from different places: WORLD_SIZE counts nodes instead of processes, a
launcher on one node has another --nnodes or --nproc-per-node, or ranks start at 1. The other
ranks wait for a number that nobody takes.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rank-not-below-world-size",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    title="{who} got rank {given}, which does not exist in the world size given",
    when=log(
        r"rank < size\. (?P<given>\d+) vs\.? \d+",
        r"Invalid rank (?P<given>\d+), rank should be in the interval \[0, \d+",
        blames=Blames.SPEAKER,
    ),
    means=(
        "This process calls itself number {given}, which its own WORLD_SIZE does not allow. Its "
        "WORLD_SIZE differs from that of the others, or its rank was computed wrongly."
    ),
    confidence=0.93,
    remedies=(
        (
            "Make WORLD_SIZE the number of all processes, equal everywhere, and RANK run from 0 "
            "to WORLD_SIZE-1."
        ),
        "Compare --nnodes, --node-rank and --nproc-per-node of all launchers.",
    ),
    next_steps=("env | grep -E 'RANK|WORLD_SIZE'  # in every process",),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/context.cc:23] rank < "
            "size. 1 vs 1"
        ),
        (
            "RuntimeError: [enforce fail at ../third_party/gloo/gloo/context.cc:27] rank < size. "
            "4 vs 4"
        ),
        "ValueError: Invalid rank 8, rank should be in the interval [0, 7]",
    ),
    misses=("AssertionError: rank < size of the matrix",),
    outranks=(
        "gloo-rank-never-came",
        "gloo-rank-zero-never-came",
        "store-clients-missing",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
