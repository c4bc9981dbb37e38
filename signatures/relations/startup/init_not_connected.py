"""A rank has no connection to the store that the other ranks have reached.

It was given another address or port (in its environment, in its own code, in an old file), a
firewall drops its packets, or its name resolves elsewhere. The others wait for it in
init_process_group, and it waits for a store that does not answer.
"""

from whyhang.analyzer.match import Kind, Signature, not_connected

SIGNATURE = Signature(
    id="init-not-connected",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {has} not reached the store ({store}) that the other ranks are connected to",
    when=not_connected(),
    means=(
        "The store listens on {store} and {others} are connected to it; {who} {is} not{knocks}. "
        "It tries another address or port, or its packets do not arrive."
    ),
    confidence="strong",
    remedies=(
        "Compare the init_method, MASTER_ADDR and MASTER_PORT that {who} really uses ({where}).",
        "If they agree, check name resolution and firewall from its host to the store's port.",
    ),
    next_steps=("ss -tnp state syn-sent  # on the host of {who}: where does it knock?",),
    explains=("init-missing-rank", "missing-rank-in-collective", "stuck-together"),
)
