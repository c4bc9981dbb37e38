"""Rank 0's store waited for all processes of the job, and some never connected.

The line comes from the process that hosts the store, which is healthy. It tells how many came
and not which. A process is missing because it was never started, failed on import, has another
MASTER_ADDR or MASTER_PORT, or cannot reach the host; or WORLD_SIZE counts more processes than
were launched.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-clients-missing",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Only {joined} of {world} processes reached the store",
    when=log(
        (
            r"Timed out after \d+ seconds waiting for clients\. (?P<joined>\d+)/(?P<world>\d+) "
            r"clients joined"
        ),
    ),
    means=(
        "Rank 0 hosts the store and waited for all {world} processes; {joined} came, itself "
        "included. The others were never started, died before, or tried another address."
    ),
    confidence=0.93,
    remedies=(
        (
            "Count the processes that were really started on each node, and look at the first "
            "lines of those that are missing."
        ),
        (
            "Check that WORLD_SIZE, --nnodes and --nproc-per-node agree on all nodes, and that "
            "all use the same MASTER_ADDR and MASTER_PORT."
        ),
        "Open the port between the nodes (firewall, network policy).",
    ),
    next_steps=("nc -zv MASTER_ADDR MASTER_PORT  # from each node while rank 0 waits",),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "torch.distributed.DistStoreError: Timed out after 5 seconds waiting for clients. "
            "1/2 clients joined."
        ),
        (
            "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. "
            "62/64 clients joined."
        ),
    ),
    misses=("Timed out after 30 seconds waiting for dataset",),
    outranks=(
        "gloo-rank-never-came",
        "gloo-rank-zero-never-came",
        "store-client-timeout",
        "store-connect-refused",
    ),
)
