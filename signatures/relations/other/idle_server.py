"""Nothing hangs: the job is a server, and nobody asks it anything.

One rank stands in the loop of a server, and the others in a broadcast, scatter or receive, where
they take what it hands them. So does every job that serves a model, between two requests.
"""

from whyhang.analyzer.match import Kind, Signature, serves

SIGNATURE = Signature(
    id="idle-server",
    category="healthy",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {waits} for requests, and {others} for what it hands them: nothing to do",
    when=serves(),
    means=(
        "{who} {is} in the loop of a server{at} and {others} in {call}. So a server of several "
        "ranks stands between two requests."
    ),
    confidence="likely",
    remedies=(
        "Nothing to do, if the job is to serve requests.",
        "If it is to train, start the server on a thread of its own: its loop does not return.",
    ),
    next_steps=("ss -tlnp | grep pid={pid}  # where does it listen? then send it a request",),
    explains=("missing-rank-in-collective",),
)
