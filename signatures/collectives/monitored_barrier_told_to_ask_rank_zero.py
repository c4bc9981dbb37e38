"""A rank that did reach a monitored barrier reports that the barrier failed.

The rank that speaks is healthy: it came, and then waited for rank 0. Rank 0 waits for everybody
and names those who are missing in its own log, so that is where to read on.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="monitored-barrier-told-to-ask-rank-zero",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="A monitored barrier failed; ranks that reached it point at rank 0's log",
    when=log(
        (
            r"successfully reached monitoredBarrier, but received errors while waiting for "
            r"send/recv from rank 0"
        ),
        r"Rank \d+ timed out in monitoredBarrier after \d+ ms",
    ),
    means=(
        "The rank that prints this did reach the barrier. The rank that did not is named in the "
        "log of rank 0."
    ),
    confidence=0.5,
    next_steps=("Look for 'failed to pass monitoredBarrier' in the log of rank 0",),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
            "send/recv from rank 0. Please check rank 0 logs for faulty rank."
        ),
        "Rank 0 timed out in monitoredBarrier after 4000 ms.",
    ),
    misses=(
        (
            "RuntimeError: Backend nccl does not support monitoredBarrier, only GLOO supports "
            "monitored barrier."
        ),
    ),
)
