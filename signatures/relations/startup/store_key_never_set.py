"""A rank waits for a key of the store that nobody sets, and the others wait for that rank.

store.get and store.wait block until some rank sets the key. A misspelt key, a branch that
leaves out the set, or a rank 0 that died before it leave the reader there for ever.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, late

SIGNATURE = Signature(
    id="store-key-never-set",
    category="store-key-never-set",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {is} waiting for a key of the store that nobody sets{at}{waiting}",
    when=late(WaitKind.STORE, alone=True),
    means="{who} {is} in a store call{at} that only ends when some rank sets the key{waiting}.",
    confidence="strong",
    remedies=(
        "Look at {where}: which rank should set that key, under which name, and did it come there?",
    ),
    next_steps=("grep -rn 'store.set' .  # in the training code: is it the same key?",),
    explains=("missing-rank-in-collective",),
)
