"""A process cannot connect to the rendezvous store of the job.

The address is MASTER_ADDR:MASTER_PORT or the rendezvous endpoint. Nothing listens there (rank 0
not started, already dead, started with another port), the name leads to another machine or to
loopback, or a firewall or network policy drops the connection. The process that prints it is
healthy.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-client-timeout",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="Nobody answered at {host}:{port}, where the store should be",
    when=log(
        (
            r"The client socket has timed out after \d+m?s while trying to connect to "
            r"\((?P<host>[^,]+), (?P<port>\d+)\)"
        ),
        (
            r"TCP client failed to connect/validate to host (?P<host>\S+):(?P<port>\d+) - "
            r"(?:timed out|retrying) \(try=\d+, timeout=\d+ms[^)]*\): The client socket has "
            r"timed out"
        ),
    ),
    means=(
        "A process could not reach the store at {host}:{port} until its time was up. Rank 0, "
        "which hosts it, is not running there or not yet, or the way to it is blocked."
    ),
    confidence=0.88,
    remedies=(
        "Check that rank 0 (or the rendezvous host) runs and listens: ss -ltnp on that host.",
        (
            "Use an address of that host that all nodes reach, not localhost nor a name that "
            "resolves to 127.0.1.1."
        ),
        "Open the port between the nodes.",
    ),
    next_steps=(
        "nc -zv {host} {port}  # from the node that complains",
        "getent hosts {host}  # on every node",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "[E1121 02:09:59.379558772 socket.cpp:1028] [c10d] The client socket has timed out "
            "after 4000ms while trying to connect to (127.0.0.1, 39473)."
        ),
        (
            "TimeoutError: The client socket has timed out after 60s while trying to connect to "
            "(node01, 29400)."
        ),
        (
            "[E1121 02:10:16.910430164 TCPStore.cpp:328] [c10d] TCP client failed to "
            "connect/validate to host node01:56839 - timed out (try=1, timeout=4000ms): The "
            "client socket has timed out after 4000ms while trying to connect to (node01, 56839)."
        ),
    ),
    misses=(
        (
            "[W1121 02:10:24.3 TCPStore.cpp:340] [c10d] TCP client failed to connect/validate to "
            "host 127.0.0.1:40639 - retrying (try=0, timeout=4000ms, delay=4728ms): Failed to "
            "recv, got 0 bytes."
        ),
    ),
    outranks=(
        "rendezvous-connection-error",
        "store-connect-refused",
    ),
)
