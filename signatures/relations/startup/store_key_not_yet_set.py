"""Ranks wait for a key of the store, and a rank that waits for nobody may be the one to set it.

store.get, store.wait, a barrier made of keys, the id of an NCCL communicator that rank 0 puts
there at its first call: the readers sleep until some rank sets the key. Here one rank stands
in something of its own, before or beside the line that sets it.
"""

from whyhang.analyzer.match import Kind, Signature, Status, WaitKind, late

SIGNATURE = Signature(
    id="store-key-not-yet-set",
    category="store-key-never-set",
    kind=Kind.CAUSE,
    level="wait",
    title="{others} {wait} for a key of the store, and {who} {is} elsewhere: {does}{at}",
    when=late(
        besides=(WaitKind.STORE,),
        while_in=(WaitKind.STORE,),
        states=(Status.BLOCKED, Status.RUNNING, Status.STOPPED),
    ),
    means=(
        "{others} {wait} in a store call that ends when some rank sets the key. {who} {is} the "
        "only part of the job that waits for no other rank ({does}{at}); if it is to set the key, "
        "it has not come there."
    ),
    confidence="strong",
    remedies=(
        "Look at {where}: what keeps {who} there, and where would it set the key?",
        "If no rank sets that key at all, look for another spelling or a branch without it.",
    ),
    next_steps=("py-spy dump --pid {pid}  # of {who}: does it come to the set?",),
    explains=(
        "missing-rank-in-collective",
        "rank-spinning",
        "rank-stopped",
        "dataloader-blocked",
        "storage-io-blocked",
        "network-io-blocked",
        "slow-not-hung",
    ),
)
