"""A rank waits for the address of another one while the gloo group connects.

The key that is waited for ends in the number of the rank that is missing (the lowest one, if
several are). It was never started, failed on import, is stuck before init_process_group, or
believes to be another rank, so that two processes publish under one number and nobody under
this one.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-rank-never-came",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Rank {rank} never joined the process group",
    when=log(
        r"wait timeout after \d+ms, keys: \S*/default_pg/0//cpu//\d+/(?P<rank>[1-9]\d*)",
        blames=Blames.NAMED,
    ),
    means=(
        "While the default group is set up every rank publishes its address in the store. Rank "
        "{rank} is the lowest one whose address never appeared: it was not started, failed "
        "before, or hangs earlier."
    ),
    confidence=0.85,
    remedies=(
        "Look at the log of that rank: was it started, with which RANK, and how far did it come?",
        "Check that every process has a RANK of its own, from 0 to WORLD_SIZE-1.",
    ),
    next_steps=(
        "Compare RANK and WORLD_SIZE in the environment of all processes",
        "py-spy dump --pid PID  # of that rank, if it lives",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/2"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//cpu//0/13"
        ),
    ),
    misses=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/0"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//1//cpu//0/1"
        ),
    ),
    outranks=(
        "store-key-wait",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
