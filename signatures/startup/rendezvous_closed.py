"""A torchrun agent finds the rendezvous closed.

It is closed when the workers of some node have finished or finally failed. A node that restarts
after that, or comes late with the id of an old job, gets this.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rendezvous-closed",
    category="elastic-restart",
    kind=Kind.CONSEQUENCE,
    title="A node came to a rendezvous that was already closed",
    when=log(
        r"rendezvous\.api\.RendezvousClosedError",
        r"Rendezvous gracefully exited: ",
    ),
    means=(
        "The job had ended, or was ending, for the other nodes when this one tried to join "
        "(again). Their end is the question."
    ),
    confidence=0.5,
    next_steps=(
        "Read why the other nodes ended",
        "Use a new --rdzv-id for every job",
    ),
    links=("https://pytorch.org/docs/stable/elastic/rendezvous.html",),
    matches=(
        "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
        (
            "I1121 02:13:16.926000 17542 torch/distributed/elastic/agent/server/api.py:751] "
            "Rendezvous gracefully exited: Rendezvous shut down"
        ),
    ),
    misses=("    raise RendezvousClosedError",),
)
