"""The store barrier counts more processes than there should be ranks.

It waits for the count to be exactly WORLD_SIZE and so never ends. Either processes share a rank
(each of 8 processes started with WORLD_SIZE=2, a script launched twice against one master), or
the store still holds the count of an earlier attempt (restart with a store that survived).
"""

from whyhang.analyzer.match.barrier import store_barrier
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-barrier-overfull",
    category="init-duplicate-rank",
    kind=Kind.CAUSE,
    level="setup",
    title="More processes joined the start-up barrier than the job has ranks",
    when=store_barrier(
        (
            r"Timed out initializing process group in store based barrier on rank:? "
            r"(?P<waiter>\d+), for key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
            r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
        ),
        (
            r"Waiting in store based barrier to initialize process group for (?:\d+ "
            r"secondsrank|rank): (?P<waiter>\d+), key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
            r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
        ),
        over=True,
    ),
    means=(
        "The counter in the store is higher than WORLD_SIZE. So several processes use the same "
        "rank, WORLD_SIZE is too small, or an earlier attempt left its count in a store that "
        "lived on."
    ),
    confidence="likely",
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
            "0, for key: store_based_barrier_key:1 (world_size=4, worker_count=3, "
            "timeout=0:30:00)"
        ),
        (
            "torch.distributed.DistStoreError: Timed out initializing process group in store "
            "based barrier on rank 1, for key: store_based_barrier_key:2 (world_size=8, "
            "num_workers_joined=7, timeout=0:10:00 error=wait timeout after 600000ms, keys: "
            "/store_based_barrier_key:2:last_worker)"
        ),
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
        (
            "Waiting in store based barrier to initialize process group for rank: 0, key: "
            "store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)"
        ),
        (
            "Waiting in store based barrier to initialize process group for rank: 0, key: "
            "store_based_barrier_key:1 (world_size=4, worker_count=3, timeout=0:30:00)"
        ),
        (
            "INFO:torch.distributed.distributed_c10d:Waiting in store based barrier to "
            "initialize process group for 10 secondsrank: 1, key: store_based_barrier_key:1 "
            "(world_size=2, num_workers_joined=1, timeout=0:30:00)"
        ),
    ),
    misses=(
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.",
    ),
    explains=(
        "store-barrier-incomplete",
        "store-key-wait",
    ),
)
