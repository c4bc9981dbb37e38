"""Nobody listens where NCCL connects to: before a communicator was set up, or after."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Blames, Case, Hit, Kind, Signature

PATTERNS = (
    (
        r"connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> returned Connection refused, exceeded "
        r"error retry count"
    ),
    r"Connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> failed ?: Connection refused",
    r"Connect to (?P<peer>[^\s<]+)<(?P<port>\d+)> returned 111\(Connection refused\)",
)
LINES = (
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
)


def refused(case: Case) -> Iterable[Hit]:
    return () if _was_set_up(case) else queries.logged(case, *PATTERNS, blames=Blames.ROOT)


def refused_later(case: Case) -> Iterable[Hit]:
    return queries.logged(case, *PATTERNS) if _was_set_up(case) else ()


REFUSED = Signature(
    id="nccl-connect-refused",
    story="""\
NCCL cannot connect because nothing listens at the peer's address any more.

Refused means that the host answered and the port is closed: the process that announced the
address has exited, or never came so far. During communicator set-up the address is that of the
bootstrap root, rank 0 of the communicator.

NCCL 2.24 and later try 34 times (about a minute) before this message. It is the peer that must
be looked at, not the ranks that print it: what did rank 0 of that group say last?
""",
    category="init-master-unreachable",
    level="peer",
    title="Nobody listens at {peer} port {port}: NCCL's connections are refused",
    when=refused,
    patterns=PATTERNS,
    means=(
        "The process that should answer at this address is gone or never started to listen. "
        "The ranks that print this are waiting for it."
    ),
    confidence="likely",
    remedies=(
        (
            "Find the process that owned the address (rank 0 of the group while it is set up) "
            "and read its own first error."
        ),
        (
            "If that rank is merely late (loading a model, compiling), call a collective "
            "later, or raise NCCL_SOCKET_RETRY_CNT."
        ),
    ),
    next_steps=(
        "ss -ltnp  # on the host of that address",
        "Look for the 'Bootstrap: Using' line with that address: its pid is the peer",
    ),
    links=(
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    matches=LINES,
    misses=(
        (
            "node3:99:140 [1] NCCL INFO socketPollConnect: connect to 10.8.1.2<54709> returned "
            "Connection refused, retrying (2/34) after sleep for 200 msec"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to "
            "10.8.1.2<54709> failed : No route to host"
        ),
    ),
)

REFUSED_LATER = Signature(
    id="nccl-connect-refused-later",
    story="""\
NCCL's connection to a peer is refused though the communicator had been set up.

The peer announced its address and listened when the communicator was made. Connections that are
opened later, at the first use of a transport, find nobody there: that process has ended since.
""",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="A peer that had joined the communicator no longer listens at {peer}",
    when=refused_later,
    patterns=PATTERNS,
    means=(
        "The process at this address had set up the communicator with the others and is gone "
        "now. Its own first error is the cause."
    ),
    confidence="likely",
    next_steps=(
        "Find the rank whose log ends first or holds another error",
        "Look for the 'Bootstrap: Using' line with that address: its pid is the peer",
    ),
    matches=LINES,
    misses=("NCCL WARN Connect to 10.0.0.2<41033> failed : No route to host",),
)

SIGNATURES = (REFUSED, REFUSED_LATER)


def _was_set_up(case: Case) -> bool:
    """Return whether some communicator was set up: then a peer has gone since."""
    return any(track.kind == "nccl-init" and track.completed for track in case.job.tracks)
