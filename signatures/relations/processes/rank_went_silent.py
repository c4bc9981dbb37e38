"""A rank's log just stops, while the others report that a peer is gone.

A process that is killed (a node that goes down, kill -9, a deleted pod) prints nothing more.
The survivors name an address at best. The rank whose own log ends in the middle of its work
is the one that went.
"""

from whyhang.analyzer.match import Kind, Signature, went_silent

SIGNATURE = Signature(
    id="rank-went-silent",
    category="rank-died",
    kind=Kind.CAUSE,
    level="wait",
    title="The log of {who} just stops; a lost peer is reported by {others}",
    when=went_silent(),
    means=(
        "{who} printed no error: the log ends in the middle of the work. {others} lost the "
        "connection to a peer. Most likely the process or its node was killed."
    ),
    confidence="possible",
    remedies=(
        "Look at the host of {who}: was the node, the pod or the process ended?",
        "Check dmesg for the OOM killer and the scheduler for a node failure.",
    ),
    next_steps=("dmesg -T | grep -iE 'oom|killed process'; last -x reboot",),
    explains=("ras-process-missing",),
)
