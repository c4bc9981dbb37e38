"""Ranks wait in a collective for one that is somewhere no other signature knows.

The safety net of ``missing-rank-in-collective``: whatever a late rank does, if nothing more
particular speaks for it, it is still the one that the others wait for.
"""

from whyhang.analyzer.match import RESTING, Kind, Signature, late

SIGNATURE = Signature(
    id="missing-rank-elsewhere",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="fallback",
    title="{who} {has} not reached {call}: {does}{at}",
    when=late(moves=RESTING),
    means=(
        "{others} {wait} in {call}; {who} waits for no other rank and {has} not come to it. "
        "What {who} does there is the cause."
    ),
    confidence="likely",
    remedies=("Look at {where}: why {is} {who} there and not in {call}?",),
    next_steps=("py-spy dump --native --pid {pid}  # of {who}, twice: does the stack change?",),
    last_resort=True,
)
