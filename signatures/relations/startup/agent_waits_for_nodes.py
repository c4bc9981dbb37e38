"""torchrun waits in its own rendezvous for the agents of other nodes; no rank was started.

Each node runs one agent. The ranks are started when as many agents have met as --nnodes asks
for: with "2:4" when two are there (and nobody more has come for a while), with "2" when both
are. An agent that was never started, that was sent to another endpoint or another --rdzv-id,
or that ended, keeps the others waiting. There is no stack of any rank to look at.
"""

from whyhang.analyzer.match import Kind, Signature, agents_meet

SIGNATURE = Signature(
    id="agent-waits-for-nodes",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="wait",
    title=(
        "{who} {waits} in the rendezvous{at}{id}: {wanted} are needed and {come}, "
        "so no rank was started{missing}"
    ),
    when=agents_meet(),
    means=(
        "The agents meet ({kind} rendezvous{at}{id}) before they start any rank. --nnodes asks for "
        "{wanted}; {come}{missing}.{restarts}"
    ),
    confidence="strong",
    remedies=(
        (
            "Start torchrun on the missing nodes, with the same --rdzv-endpoint, --rdzv-id and "
            "--nnodes (static: the same --master-addr and --master-port, each its own "
            "--node-rank)."
        ),
        "If there are no more nodes, start with a smaller --nnodes.",
    ),
    next_steps=(
        "pgrep -af 'torchrun|torch.distributed.run'  # on every node: does it run, with what?",
        "LOGLEVEL=INFO torchrun …  # each agent says what it was told and when the nodes have met",
    ),
    links=("https://docs.pytorch.org/docs/stable/elastic/run.html",),
    explains=("rendezvous-timeout",),
)
