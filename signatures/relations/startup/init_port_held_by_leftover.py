"""A process of an earlier run of the same script still holds the port of the store.

It hung, or its launcher was killed and it was not. The new rank 0 cannot open the port; the other
new ranks join the old store and find what the old ranks left in it.
"""

from whyhang.analyzer.match import Kind, Signature, leftover

SIGNATURE = Signature(
    id="init-port-held-by-leftover",
    category="init-port-in-use",
    kind=Kind.CAUSE,
    level="setup",
    title="Port {port} of the store is held by {holder}, left over from an earlier run{of_rank}",
    when=leftover(),
    means=(
        "{holder}{command} runs the same script{age} and listens at {address}. It is not of this "
        "start; the new rank 0 cannot open its store, and the others talk to the old one."
    ),
    confidence="certain",
    remedies=(
        "End the leftover and whatever belongs to it: kill {holder_pid}. Then start again.",
        "Let launch scripts kill the whole process group, and give each run a port of its own.",
    ),
    next_steps=("ss -ltnp | grep :{port}; ps -o pid,lstart,args -p {holder_pid}",),
    explains=(
        "init-port-held",
        "init-duplicate-rank",
        "init-missing-rank",
        "init-not-connected",
        "missing-rank-in-collective",
        "rank-died",
        "stuck-together",
        "port-in-use",
        "port-in-use-python",
    ),
)
