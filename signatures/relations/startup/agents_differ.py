"""Agents of one job were sent to different meetings: each waits for the others where they are not.

Another --rdzv-endpoint, another --rdzv-id (a date or a job number made on each node), another
--nnodes: nothing fails, every agent waits until its rendezvous times out.
"""

from whyhang.analyzer.match import Kind, Signature, agents_differ

SIGNATURE = Signature(
    id="agents-differ",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {waits} at another meeting ({theirs}) than {others} ({usual})",
    when=agents_differ(),
    means=(
        "torchrun's agents find each other by endpoint and --rdzv-id, and need one --nnodes. {who} "
        "was told {theirs}, {others} {usual}; they wait for each other and no rank is started."
        "{tie}"
    ),
    confidence="certain",
    remedies=(
        (
            "Give every node the same --rdzv-endpoint, --rdzv-id and --nnodes; make an id once, "
            "not on each node."
        ),
    ),
    next_steps=("tr '\\0' ' ' < /proc/PID/cmdline  # of each torchrun",),
    explains=("agent-waits-for-nodes", "agent-not-connected"),
)
