"""Ranks wait in a collective for others of which there is no record and no word.

All that spoke have reached the call. Whoever is left has not, is dead, or simply was not
collected. Only where all ranks share one log, and all but few of them speak in it, is the
silence itself a hint.
"""

from whyhang.analyzer.match import Kind, Signature, silent_in_log

SIGNATURE = Signature(
    id="waits-for-silent-rank",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{others} {wait} in {call} for {absent}, of which there is no word of that call",
    when=silent_in_log(),
    means=(
        "Every rank that left a record has reached {call}. {absent} did not say anything: not "
        "there yet, dead, or not collected."
    ),
    confidence="possible",
    remedies=("Look at {absent} first: its stack if it lives, the end of its log if not.",),
    next_steps=("whyhang PID  # on the host of {absent}",),
)
