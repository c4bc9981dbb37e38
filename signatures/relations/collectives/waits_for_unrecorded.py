"""Ranks wait in a collective for members of its group whose recorder dumps are not at hand.

All dumps there are show ranks that have reached a call; who is missing in it left no dump, or
one from before. Nothing can be said of those: they may be late, dead, or in that call as well.
Where all but very few ranks left a dump, those few are the possibility to look at first.
"""

from whyhang.analyzer.match import Kind, Signature, awaits_unrecorded

SIGNATURE = Signature(
    id="waits-for-unrecorded",
    category="unknown",
    kind=Kind.CAUSE,
    level="fallback",
    title="{says}",
    when=awaits_unrecorded(),
    means="{says}. Whether {absent} came to {call} is what decides.",
    confidence="hint",
    remedies=("Add the dumps of {absent}, all taken at one time, or look at their stacks.",),
    next_steps=("whyhang PID  # on the hosts of {absent}",),
    last_resort=True,
)
