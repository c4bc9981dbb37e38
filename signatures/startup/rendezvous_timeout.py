"""torchrun's rendezvous ended because too few nodes joined.

The agent that prints it is healthy and waited, ten minutes by default. Missing is a whole node:
its launcher was not started, has another --rdzv-id, --rdzv-endpoint or --nnodes, or the
endpoint is not reachable from it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rendezvous-timeout",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    title="Not enough nodes joined the rendezvous in time",
    when=log(
        r"rendezvous\.api\.RendezvousTimeoutError",
        r'"message": "RendezvousTimeoutError:',
    ),
    means=(
        "torchrun waited for the minimum number of nodes and they did not come: a node was not "
        "started, uses another rendezvous id or endpoint, or cannot reach it."
    ),
    confidence=0.85,
    remedies=(
        (
            "Check that torchrun runs on every node, with equal --nnodes, --rdzv-id and "
            "--rdzv-endpoint."
        ),
        "Open the endpoint's port between the nodes.",
        (
            "If nodes start at very different times, raise join_timeout (--rdzv-conf "
            "join_timeout=1800)."
        ),
    ),
    next_steps=(
        "nc -zv HOST PORT  # of the endpoint from every node",
        "Compare the command lines of torchrun on all nodes",
    ),
    links=("https://pytorch.org/docs/stable/elastic/rendezvous.html",),
    matches=(
        '    "message": "RendezvousTimeoutError: ",',
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError: The rendezvous has "
            "timed out."
        ),
    ),
    misses=("    raise RendezvousTimeoutError",),
)
