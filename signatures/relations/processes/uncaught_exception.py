"""A rank ended with an exception of its own, and the others were left waiting.

The ranks that live on notice it late and loudly: a closed connection, a watchdog timeout. The
quiet traceback on one rank is the cause. Exceptions that a collective raised because a peer
was gone do not count, and those with a signature of their own are told there.
"""

from whyhang.analyzer.match import Kind, Signature, raised

SIGNATURE = Signature(
    id="uncaught-exception",
    category="rank-died",
    kind=Kind.CAUSE,
    level="program",
    title="{who} ended with {what}{at}",
    when=raised(),
    means="{who} raised {what}{at} and left the job; whoever waits for it can only time out.",
    confidence="likely",
    remedies=(
        "Fix the exception on {who}; what the other ranks print follows from it.",
        (
            "If only some ranks can fail so, agree on it first (all_reduce a flag) or let the "
            "launcher end the job."
        ),
    ),
    next_steps=("Read the log of {who} from the traceback upwards.",),
    gives_way=True,
    explains=("ras-process-missing",),
)
