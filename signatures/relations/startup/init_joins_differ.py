"""The ranks' calls of init_process_group were given different world sizes.

The size may come from a configuration, a count of devices or a sum over hosts, and then no
environment variable shows it. The calls themselves do: a rank with a larger size waits for ranks
that do not exist, one with a smaller one goes on too early.
"""

from whyhang.analyzer.match import Kind, Signature, joins_differ

SIGNATURE = Signature(
    id="init-joins-differ",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {has} joined a world of {theirs} ranks, the other ranks one of {usual}",
    when=joins_differ(),
    means=(
        "init_process_group was called with world_size={theirs} by {who} and with {usual} by the "
        "others; they wait for different numbers of ranks."
    ),
    confidence="certain",
    remedies=("Look at {where}: where does the world size come from, and why does it differ?",),
    next_steps=("grep -rn 'world_size' .  # in the training code and its configuration",),
    explains=("init-missing-rank", "rank-died", "missing-rank-in-collective", "stuck-together"),
)
