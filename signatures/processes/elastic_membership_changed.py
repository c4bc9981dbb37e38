"""An elastic job changes its nodes and restarts all workers.

A node that joins, or one that goes silent and is removed after missing its heartbeats, ends the
round. Workers that were in a collective then see their peers leave, and report errors that mean
nothing. The question is why the node went silent: power, network, memory, or the agent was
killed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="elastic-membership-changed",
    category="elastic-restart",
    kind=Kind.CAUSE,
    title="torchrun restarts all workers because nodes came or left",
    when=log(
        r"Detected \d+ new nodes from group_rank=\d+; will restart worker group",
        (
            r"node\(s\) (?P<nodes>.+) have been removed from the rendezvous .* since they had no "
            r"heartbeat"
        ),
        r"failed to send a keep-alive heartbeat to the rendezvous",
    ),
    means=(
        "The set of nodes changed, so the agents stop their workers and start them again in a "
        "new round, from the last checkpoint."
    ),
    confidence=0.8,
    remedies=(
        "Look at the node that was removed: is it alive, was its agent killed, is its network up?",
        (
            "Let the script load the newest checkpoint at start, since every round starts from "
            "the beginning."
        ),
    ),
    next_steps=(
        "Read the agent's log on the node that left",
        "dmesg -T  # on that node; and what the scheduler says of it",
    ),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        (
            "[INFO] torch.distributed.elastic.agent.server.api: [default] Detected 1 new nodes "
            "from group_rank=0; will restart worker group"
        ),
        (
            "As part of the sync operation the node(s) 'node7_28672_0' have been removed from "
            "the rendezvous '11' since they had no heartbeat."
        ),
        (
            "WARNING: The node 'node1_3_0' failed to send a keep-alive heartbeat to the "
            "rendezvous 'job' due to an error of type RendezvousConnectionError."
        ),
    ),
    misses=("[default] Worker group FAILED. 1/3 attempts left; will restart worker group",),
)
