"""All processes that were started wait in init_process_group for a rank that nobody is.

Their calls were given a world size larger than the number of processes: a count of devices, a
setting of the last run, nodes that were not started.
"""

from whyhang.analyzer.match import Kind, Signature, joins_too_many

SIGNATURE = Signature(
    id="init-joins-too-many",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {has} not come: the {count} ranks that have join a world of {size}",
    when=joins_too_many(),
    means=(
        "init_process_group was called with world_size={size}, and {count} ranks have come. Nobody "
        "is {who}: not started, or counted in by mistake."
    ),
    confidence="strong",
    remedies=(
        "Look at {where}: where does the world size come from?",
        "If the size is right, start {who}.",
    ),
    next_steps=("pgrep -af python  # on every host: how many ranks were started?",),
    explains=("init-missing-rank", "stuck-together"),
)
