"""torch tried IPv6 first, which this host does not have.

The next attempt, with IPv4, decides. Only if that fails too is there a problem, and then it
prints lines of its own.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-no-ipv6",
    category="healthy",
    kind=Kind.NOISE,
    title="This host has no IPv6; torch goes on with IPv4",
    when=log(
        r"The (?:local )?IPv6 network addresses .*cannot be retrieved \(gai error: -(?:5|9) ",
        r"\(errno: 97 - Address family not supported by protocol\)",
        r"\(errno: 99 - Cannot assign requested address\)",
    ),
    means=(
        "torch tries IPv6 first and then IPv4. Without IPv6 the first try fails, and nothing "
        "follows from it."
    ),
    confidence=0.85,
    matches=(
        (
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -5 - No address associated with hostname)."
        ),
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to [::1]:29500 "
            "(errno: 97 - Address family not supported by protocol)."
        ),
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to "
            "[localhost]:29500 (errno: 99 - Cannot assign requested address)."
        ),
    ),
    misses=(
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node01]:29500 "
            "(errno: 111 - Connection refused)."
        ),
    ),
)
