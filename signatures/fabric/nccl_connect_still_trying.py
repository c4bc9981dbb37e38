"""A rank keeps trying to connect and is still refused.

A few retries are ordinary at start-up, when peers come up one after the other. This signature
looks only at the twentieth try and later (more than 20 seconds with the default back-off).

In a log that ends here the process is still trying, or was killed meanwhile. The peer at that
address is the one to look at.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-connect-still-trying",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="NCCL has tried many times to connect{to}",
    when=log(
        (
            r"connect(?P<to>(?: to [^\s<]+<\d+>)?) returned (?P<why>[^,]+), retrying "
            r"\((?:[2-9]\d|\d{3,})/\d+\)"
        ),
    ),
    means=(
        "The peer has not accepted connections for a long while ({why}): it is late, gone, or not "
        "reachable on this interface."
    ),
    confidence=0.55,
    remedies=(
        "Look at the process behind the address (rank 0 of the group during set-up).",
        "Check that both hosts use interfaces that can reach each other.",
    ),
    next_steps=(
        "nc -vz ADDRESS PORT  # from this host",
        "ss -ltnp  # on the host of that address",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [0] NCCL INFO socketPollConnect: connect returned No route to host, "
            "retrying (26/34) after sleep for 2600 msec"
        ),
        (
            "node3:99:140 [1] NCCL INFO ncclOsSocketPollConnect: connect to 10.8.1.2<54709> "
            "returned Connection refused, retrying (34/34) after sleep for 3400 msec"
        ),
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection timed out, retrying (21/34) after sleep for 2100 msec"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection refused, retrying (2/34) after sleep for 200 msec"
        ),
    ),
    outranks=("launcher-exit-code",),
)
