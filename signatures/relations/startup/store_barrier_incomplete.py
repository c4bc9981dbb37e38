"""The store barrier at the end of group creation did not see all ranks.

Up to torch 2.0 every new group ends with it, later only with TORCH_DIST_INIT_BARRIER=1. The
rank that prints it has arrived. Which ranks are missing is not said: they are those without a
'Completed store-based barrier' and without this line. If more ranks joined than there are, see
store-barrier-overfull.
"""

from whyhang.analyzer.match.barrier import store_barrier
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-barrier-incomplete",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="wait",
    title="Only {joined} of {world} ranks reached the start-up barrier{not}",
    when=store_barrier(
        (
            r"Timed out initializing process group in store based barrier on rank:? "
            r"(?P<waiter>\d+), for key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
            r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
        ),
    ),
    means=(
        "Each rank counts itself in the store when a group is created. {joined} of {world} did "
        "so in time; the rest are missing or stuck earlier."
    ),
    confidence="likely",
    remedies=(
        (
            "Find the ranks that never reached this point: not started, failed on import, or "
            "busy before init_process_group."
        ),
        "Call new_group on all ranks in the same order.",
    ),
    next_steps=(
        (
            "Look for 'Added key: store_based_barrier_key' in each rank's log; who lacks it "
            "never came"
        ),
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
    ),
    misses=(
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 4 nodes.",
    ),
    explains=(
        "store-key-wait",
        "store-barrier-waiting",
    ),
)
