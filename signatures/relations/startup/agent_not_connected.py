"""torchrun of a later node knocks at the first node's door, and nobody opens.

The agent of node 0 (static rendezvous) or of the host that --rdzv-endpoint names (c10d) holds the
store where all meet. The others try to connect to it, again and again: it was not started, listens
on another port or address, or a firewall stands between them.
"""

from whyhang.analyzer.match import Kind, Signature, agents_meet

SIGNATURE = Signature(
    id="agent-not-connected",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {reaches} not reach the meeting place of the nodes{at}; no rank was started",
    when=agents_meet(reached=False),
    means=(
        "The agent of node 0 should hold the store{at}; {who} has no connection to it.{restarts}"
    ),
    confidence="strong",
    remedies=(
        (
            "Start torchrun on the host that --master-addr (static, --node-rank 0) or "
            "--rdzv-endpoint (c10d) names."
        ),
        "If it runs there, compare address and port of all nodes, then host names and firewall.",
    ),
    next_steps=("nc -vz $(echo {endpoint} | tr : ' ')  # from this host: does anyone listen?",),
)
