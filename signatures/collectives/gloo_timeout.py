"""A gloo send or receive ran into its time limit.

The rank that prints it did come and waited; the message does not tell for whom. 'Application
timeout caused pair closure' is a second echo: another operation of the same process had timed
out before.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-timeout",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="A gloo operation waited in vain for another rank",
    when=log(
        r"Timed out waiting \d+ms for (?P<direction>recv|send) operation to complete",
        r"Application timeout caused pair closure",
        r"gloo/transport/tcp/pair\.cc:\d+\] (?:Read|Write) timeout \[",
    ),
    means=(
        "The rank that prints this waited for data from, or room at, another rank until the "
        "limit. Which one is not said."
    ),
    confidence=0.5,
    remedies=(
        (
            "Find the rank that did not come, and what it did instead: it prints no such line, "
            "another error, or the oldest last line."
        ),
        (
            "If a rank is only long at work before that call, give the group a longer timeout: "
            "init_process_group(timeout=...)."
        ),
    ),
    next_steps=(
        "Find the rank that prints no such line, or whose last line is the oldest",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names the missing rank",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
            "out waiting 1800000ms for recv operation to complete"
        ),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out "
            "waiting 4000ms for send operation to complete"
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:136] "
            "Application timeout caused pair closure"
        ),
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Read timeout "
            "[10.0.0.1]:3434"
        ),
    ),
    misses=(
        (
            "requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='example.org', port=443): "
            "Read timed out. (read timeout=10)"
        ),
    ),
)
