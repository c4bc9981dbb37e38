"""Another program listens on the port of the store.

Rank 0 cannot open it and ends or tries again; the other ranks connect to a stranger and wait for
an answer that it never gives.
"""

from whyhang.analyzer.match import Kind, Signature, port_held

SIGNATURE = Signature(
    id="init-port-held",
    category="init-port-in-use",
    kind=Kind.CAUSE,
    level="setup",
    title="Port {port} of the store is held by {holder}{command}, which is no rank of this job",
    when=port_held(),
    means=(
        "The ranks are to meet at {address}, and {holder}{command}{age} listens there: {says}. "
        "Rank 0 cannot open its store, and the others wait for a stranger."
    ),
    confidence="certain",
    remedies=(
        (
            "Give the job another MASTER_PORT (--master-port), or end {holder} if it should not be "
            "there."
        ),
    ),
    next_steps=("ss -ltnp | grep :{port}",),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "init-master-refuses",
        "missing-rank-in-collective",
        "rank-died",
        "stuck-together",
        "port-in-use",
        "port-in-use-python",
        "foreign-service-on-port",
    ),
)
