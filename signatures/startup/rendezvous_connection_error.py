"""A torchrun agent cannot talk to the rendezvous store.

At start the endpoint is wrong, not up, or blocked. Later it means that the node which hosts the
store has gone. For --standalone the endpoint is localhost: a proxy setting or a broken
localhost entry is then the usual reason.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rendezvous-connection-error",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="torchrun could not reach its rendezvous store",
    when=log(
        r"RendezvousConnectionError: The connection to the C10d store has failed",
    ),
    means=(
        "The agent of a node cannot connect to the rendezvous endpoint, or lost it. No worker is "
        "started there, and the other nodes wait."
    ),
    confidence=0.8,
    remedies=(
        "Check the endpoint's host and port, and that its node is up and listens.",
        "For --standalone, check that localhost resolves to 127.0.0.1 and no proxy is set for it.",
    ),
    next_steps=(
        "nc -zv HOST PORT  # of the endpoint",
        "getent hosts localhost",
    ),
    links=("https://pytorch.org/docs/stable/elastic/rendezvous.html",),
    matches=(
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection "
            "to the C10d store has failed. See inner exception for details."
        ),
        (
            "RendezvousConnectionError: The connection to the C10d store has failed. See inner "
            "exception for details."
        ),
    ),
    misses=("    raise RendezvousConnectionError(",),
)
