"""torchrun of a later node knocks at the first node's door, and nobody opens.

With a static rendezvous (--node-rank, --master-addr) the agent of node 0 holds the store. The
others try to connect to it, again and again: it was not started, listens on another port or
address, or a firewall stands between them.
"""

from whyhang.analyzer.match import Kind, Signature, agents_meet

SIGNATURE = Signature(
    id="agent-not-connected",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="{who} {reaches} not reach the first node's store{at}; no rank was started",
    when=agents_meet(reached=False),
    means=(
        "The agent of node 0 should hold the store{at}; {who} has no connection to it.{restarts}"
    ),
    confidence=0.92,
    remedies=(
        "Start torchrun with --node-rank 0 on the host that --master-addr names.",
        (
            "If it runs there, compare --master-addr and --master-port of all nodes, then name "
            "resolution and firewall."
        ),
    ),
    next_steps=("nc -vz {endpoint}  # from this host (host and port apart): does anyone listen?",),
)
