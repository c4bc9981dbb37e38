"""Ranks reached a monitored barrier, but its rank 0 never answered and named nobody.

In a monitored barrier all ranks report to rank 0. If rank 0 misses somebody, it says so, and
the others get this line as an echo. If several ranks say so, no line of rank 0 names anybody
and no connection was closed, then rank 0 itself is the one that did not come. From the log of
one rank alone this cannot be told, so it stays a possibility.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="monitored-barrier-rank-zero-absent",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Rank 0 did not answer the other ranks in a monitored barrier",
    when=log(
        (
            r"successfully reached monitoredBarrier, but received errors while waiting for "
            r"send/recv from rank (?P<rank>0)\b"
        ),
        blames=Blames.NAMED,
        least=2,
    ),
    unless=log(
        r"failed to pass monitoredBarrier in \d+ ms",
        r"Connection closed by peer \[",
        r"Connection reset by peer",
    ),
    means=(
        "Several ranks reached a monitored barrier and heard nothing from its rank 0, which "
        "itself reported no missing rank. So rank 0 probably never entered the barrier."
    ),
    confidence=0.45,
    remedies=(
        (
            "Look at rank 0: does it do something alone (save, evaluate, download) while the "
            "others are in the barrier?"
        ),
        (
            "Let every rank reach the barrier, and give one that follows long work on rank 0 a "
            "longer timeout."
        ),
    ),
    next_steps=("Read the log and stacks of rank 0 at that time",),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "[E1121 02:09:00.952129330 ProcessGroupGloo.cpp:67] Rank 1 successfully reached "
            "monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
            "Please check rank 0 logs for faulty rank."
        ),
        (
            "RuntimeError: Rank 2 successfully reached monitoredBarrier, but received errors "
            "while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank."
        ),
        (
            "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
            "send/recv from rank 0. Please check rank 0 logs for faulty rank."
        ),
    ),
    misses=(
        "[Rank 0]: Rank 1 failed to pass monitoredBarrier in 4000 ms",
        (
            "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer "
            "[10.1.0.4]:43210"
        ),
        (
            "RuntimeError: [gloo/transport/tcp/pair.cc:598] read [10.1.0.4]:43210: Connection "
            "reset by peer"
        ),
    ),
)
