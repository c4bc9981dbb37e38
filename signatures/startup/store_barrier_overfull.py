"""The store barrier counts more processes than there should be ranks.

It waits for the count to be exactly WORLD_SIZE and so never ends. Either processes share a rank
(each of 8 processes started with WORLD_SIZE=2, a script launched twice against one master), or
the store still holds the count of an earlier attempt (restart with a store that survived).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-barrier-overfull",
    category="init-duplicate-rank",
    kind=Kind.CAUSE,
    title="More processes joined the start-up barrier than the job has ranks",
    when=log(
        (
            r"store based barrier on rank:? \d+, for key: \S+ \(world_size=(?:1, \w+=[2-9]|2, "
            r"\w+=[3-9]|4, \w+=[5-9]|8, \w+=9|\d, \w+=\d\d|16, \w+=(?:1[7-9]|[2-9]\d)|\d\d, "
            r"\w+=\d\d\d)"
        ),
    ),
    means=(
        "The counter in the store is higher than WORLD_SIZE. So several processes use the same "
        "rank, WORLD_SIZE is too small, or an earlier attempt left its count in a store that "
        "lived on."
    ),
    confidence=0.75,
    remedies=(
        "Check RANK and WORLD_SIZE of every process: each rank exactly once.",
        (
            "Start with a fresh store: another MASTER_PORT or rendezvous id, and no left-over "
            "processes of the last attempt."
        ),
    ),
    next_steps=(
        "tr '\\0' '\\n' < /proc/PID/environ | grep -E 'RANK|WORLD_SIZE|MASTER'  # on every process",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: "
            "0, for key: store_based_barrier_key:1 (world_size=2, worker_count=16, "
            "timeout=0:30:00)"
        ),
        (
            "torch.distributed.DistStoreError: Timed out initializing process group in store "
            "based barrier on rank 3, for key: store_based_barrier_key:1 (world_size=4, "
            "num_workers_joined=6, timeout=0:10:00 error=wait timeout after 600000ms, keys: "
            "/store_based_barrier_key:1:last_worker)"
        ),
    ),
    misses=(
        (
            "RuntimeError: Timed out initializing process group in store based barrier on rank: "
            "0, for key: store_based_barrier_key:1 (world_size=4, worker_count=3, "
            "timeout=0:30:00)"
        ),
    ),
    outranks=(
        "store-barrier-incomplete",
        "store-key-wait",
    ),
)
