"""NCCL's connection to a peer is refused though the communicator had been set up.

The peer announced its address and listened when the communicator was made. Connections that are
opened later, at the first use of a transport, find nobody there: that process has ended since.
"""

from whyhang.analyzer.match import both, set_up
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-connect-refused-later",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="A peer that had joined the communicator no longer listens at {peer}",
    when=both(
        log(
            (
                r"connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> returned Connection refused, "
                r"exceeded error retry count"
            ),
            r"Connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> failed ?: Connection refused",
            r"Connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> returned 111\(Connection refused\)",
        ),
        set_up(),
    ),
    means=(
        "The process at this address had set up the communicator with the others and is gone "
        "now. Its own first error is the cause."
    ),
    confidence="likely",
    next_steps=(
        "Find the rank whose log ends first or holds another error",
        "Look for the 'Bootstrap: Using' line with that address: its pid is the peer",
    ),
    matches=(
        (
            "[2026-02-25 16:41:56] node3:2387398:2387398 [3] os/linux.cc:200 NCCL WARN "
            "ncclOsSocketPollConnect: connect to 10.82.101.249<37857> returned Connection "
            "refused, exceeded error retry count after 35 attempts"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:578 NCCL WARN socketPollConnect: connect to "
            "10.8.1.2<54709> returned Connection refused, exceeded error retry count after 35 "
            "attempts"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to "
            "10.8.1.2<54709> failed : Connection refused"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:540 NCCL WARN socketPollConnect: Connect to "
            "10.8.1.2<54709> returned 111(Connection refused) errno 115(Operation now in "
            "progress)"
        ),
    ),
    misses=("NCCL WARN Connect to 10.0.0.2<41033> failed : No route to host",),
)
