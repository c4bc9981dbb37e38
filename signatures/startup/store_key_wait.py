"""A store wait ran into its limit: another rank never set the key.

Used by start-up, barriers, object exchange and user code alike; newer versions name the keys,
older ones say only 'Socket Timeout'. The rank that prints it is the one that waits. Who should
have set the key follows from the program: mostly rank 0, or the rank whose number stands in the
key.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-key-wait",
    category="store-key-never-set",
    kind=Kind.CAUSE,
    title="A process waited in the store for a key that nobody set",
    when=log(
        r"DistStoreError: wait timeout after \d+ms, keys: ",
        r"(?:RuntimeError|DistStoreError): Socket Timeout",
    ),
    unless=log(
        r"wait timeout after \d+ms, keys: \S*default_pg/0//(?:\w+//)?c(?:pu|uda)//",
    ),
    means=(
        "Store waits are how ranks meet outside of collectives. The rank that should have set "
        "the key never came to that line, or set it under another name or prefix."
    ),
    confidence=0.6,
    remedies=(
        (
            "Find the store.set (or the barrier) that belongs to this key, and the rank that "
            "should have run it."
        ),
        (
            "Check that both sides use the same PrefixStore and the same job (a restart uses "
            "another prefix)."
        ),
    ),
    next_steps=(
        (
            "Read which keys exist while the job hangs (TCPStore list_keys or num_keys on "
            "MASTER_ADDR:MASTER_PORT)"
        ),
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#distributed-key-value-store",),
    matches=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//never/set"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: "
            "/torch.rendezvous.job1.0/MASTER_ADDR"
        ),
        "RuntimeError: Socket Timeout",
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/2"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//cpu//0/13"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/0"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//cpu//0/0"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//1//cpu//0/1"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//7//cpu//0/3"
        ),
    ),
    misses=("requests.exceptions.ConnectionError: Socket Timeout while reading",),
)
