"""Ranks wait for rank 0's address while the gloo group connects.

Rank 0 usually hosts the store and publishes its address only after all processes have
connected. So when any process is missing, all others appear to wait for rank 0. What rank 0
says itself (how many clients joined) decides: either a process is missing, or rank 0 is.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-rank-zero-never-came",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Rank 0 did not publish its address while the group was set up",
    when=log(
        r"wait timeout after \d+ms, keys: \S*/default_pg/0//cpu//\d+/0",
    ),
    means=(
        "The others wait for rank 0, the first in line. Often rank 0 is there and itself still "
        "waits for a process that never came, because it hosts the store; so this names no one."
    ),
    confidence=0.6,
    remedies=(
        (
            "Read the log of rank 0: does it wait for clients, or did it fail or hang before "
            "init_process_group?"
        ),
    ),
    next_steps=(
        "Look for 'clients joined' in the log of rank 0",
        "Count the processes that were really started",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/0"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//cpu//0/0"
        ),
    ),
    misses=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/1"
        ),
    ),
    outranks=("store-key-wait",),
)
