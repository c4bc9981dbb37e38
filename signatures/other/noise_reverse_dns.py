"""The store cannot find a name for the address of a client.

Printed since torch 2.5 wherever reverse DNS is missing, as in most clusters. The name would
have been used in messages only; the connection from that address has been accepted already.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-reverse-dns",
    category="healthy",
    kind=Kind.NOISE,
    title="Reverse name lookup of a client failed",
    when=log(
        r"The hostname of the client socket cannot be retrieved\. err=-?\d+",
    ),
    means=(
        "The store wanted a name for an address, for its messages only. The connection itself "
        "works."
    ),
    confidence=0.9,
    matches=(
        (
            "[W1121 02:10:07.4 socket.cpp:764] [c10d] The hostname of the client socket cannot "
            "be retrieved. err=-3"
        ),
        "[c10d] The hostname of the client socket cannot be retrieved. err=-2",
    ),
    misses=(
        (
            "[c10d] The IPv6 network addresses of (node1, 29500) cannot be retrieved (gai error: "
            "-2 - Name or service not known)."
        ),
    ),
)
