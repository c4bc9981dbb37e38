"""A rank reports, every ten seconds, that it waits for others while a group is created.

A few such lines are normal while slow nodes load. If the log ends with them, the ranks that
never joined are the question. The rank that prints it has arrived.
"""

from whyhang.analyzer.match.barrier import store_barrier
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-barrier-waiting",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="wait",
    title="Ranks wait in the start-up barrier: {joined} of {world} have joined{not}",
    when=store_barrier(
        (
            r"Waiting in store based barrier to initialize process group for (?:\d+ "
            r"secondsrank|rank): (?P<waiter>\d+), key: (?P<key>\S+) \(world_size=(?P<world>\d+), "
            r"(?:worker_count|num_workers_joined)=(?P<joined>\d+)"
        ),
    ),
    unless=log(
        r"Completed store-based barrier for key:",
    ),
    means=(
        "A group is created only when all ranks have counted themselves in the store. {joined} "
        "of {world} had done so when this was written."
    ),
    confidence="hint",
    remedies=("Find the ranks that are not in this barrier, and what they do instead.",),
    next_steps=("py-spy dump --pid PID  # of the ranks that print no such line",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
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
)
