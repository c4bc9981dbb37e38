"""Ranks wait for a key of the store: nobody sets it, or whoever would is elsewhere."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status, WaitKind


def never_set(case: Case) -> Iterable[Hit]:
    return queries.lagging(case, WaitKind.STORE, alone=True)


def not_yet_set(case: Case) -> Iterable[Hit]:
    return queries.lagging(
        case,
        besides=(WaitKind.STORE,),
        while_in=(WaitKind.STORE,),
        states=(Status.BLOCKED, Status.RUNNING, Status.STOPPED),
    )


NEVER_SET = Signature(
    id="store-key-never-set",
    story="""\
A rank waits for a key of the store that nobody sets, and the others wait for that rank.

store.get and store.wait block until some rank sets the key. A misspelt key, a branch that
leaves out the set, or a rank 0 that died before it leave the reader there for ever.
""",
    category="store-key-never-set",
    level="wait",
    title="{who} {is} waiting for a key of the store that nobody sets{at}{waiting}",
    when=never_set,
    means="{who} {is} in a store call{at} that only ends when some rank sets the key{waiting}.",
    confidence="strong",
    remedies=(
        "Look at {where}: which rank should set that key, under which name, and did it come there?",
    ),
    next_steps=("grep -rn 'store.set' .  # in the training code: is it the same key?",),
    # says for what the ranks wait
    explains=("missing-rank-in-collective",),
)

NOT_YET_SET = Signature(
    id="store-key-not-yet-set",
    story="""\
Ranks wait for a key of the store, and a rank that waits for nobody may be the one to set it.

store.get, store.wait, a barrier made of keys, the id of an NCCL communicator that rank 0 puts
there at its first call: the readers sleep until some rank sets the key. Here one rank stands
in something of its own, before or beside the line that sets it.
""",
    category="store-key-never-set",
    level="wait",
    title="{others} {wait} for a key of the store, and {who} {is} elsewhere: {does}{at}",
    when=not_yet_set,
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
    # a rank that has not set it yet does something, which is no trouble by itself
    explains=(
        "rank-stopped",
        "rank-spinning",
        "dataloader-blocked",
        "storage-io-blocked",
        "network-io-blocked",
        "missing-rank-in-collective",
    ),
)

SIGNATURES = (NEVER_SET, NOT_YET_SET)
