"""Some ranks were started anew by torchrun, the others still run from the start before.

A rank failed on one node, its agent started that node's ranks again, and they wait in
init_process_group for ranks of their own start. With a static rendezvous (--node-rank,
--master-addr) no agent tells the other nodes; they only follow if their ranks fail, too. One
that catches the error, or computes, or waits for something else, never comes.
"""

from whyhang.analyzer.match import Kind, Signature, generations

SIGNATURE = Signature(
    id="elastic-generation",
    category="elastic-restart",
    kind=Kind.CAUSE,
    level="setup",
    title=(
        "{others} were restarted by torchrun (restart {new}) and wait for {who}, still of "
        "restart {old}: {does}{at}"
    ),
    when=generations(),
    means=(
        "TORCHELASTIC_RESTART_COUNT is {new} on {others} and {old} on {who}. {others} "
        "{wait} in init_process_group, {who} {is} {does}{at} and does not come there. Why the "
        "restart began is in the log of the node that restarted first."
    ),
    confidence="certain",
    remedies=(
        "End the job on all nodes and start it anew.",
        "Use --rdzv-backend c10d, where the agents of all nodes hear of a restart.",
        "Let a failed collective end the rank: {who} must not go on after it.",
    ),
    next_steps=("grep -n 'will restart worker group\\|exitcode' LOG  # of each node's torchrun",),
    explains=(
        "init-missing-rank",
        "missing-rank-in-collective",
        "rank-died",
        "stuck-together",
        "init-not-connected",
    ),
)
