"""The store's handshake failed: the port belongs to something else.

Since torch 2.1 client and server say hello to each other first. A web server, a scheduler,
another job's store or a port scanner at that address fails this test. The clients then retry
until their time is up.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="foreign-service-on-port",
    category="init-port-in-use",
    kind=Kind.CAUSE,
    title="Something that is not this job's store answers at the store's port",
    when=log(
        r"Ping failed, invalid (?:nonce returned|value returned from server)",
        r"Miscellaneous client with(?:out| incorrect) VALIDATE query is detected",
        (
            r"failed to connect/validate to host \S+:\d+ - (?:timed out|retrying) \(.*\): "
            r"(?:Failed to recv, got 0 bytes|Ping failed)"
        ),
    ),
    means=(
        "A connection was made, but the other side does not speak the store's protocol: the port "
        "belongs to another program or another job, or a scanner knocks at ours."
    ),
    confidence=0.8,
    remedies=(
        "Choose another port for the job, outside of the range that other services use.",
        "Check which process listens there, and that no proxy stands in between.",
    ),
    next_steps=("ss -ltnp | grep PORT  # on the master host",),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        "RuntimeError: Ping failed, invalid nonce returned",
        (
            "[W1121 02:10:24.4 TCPStore.cpp:340] [c10d] TCP client failed to connect/validate to "
            "host 10.0.0.1:29500 - retrying (try=0, timeout=600000ms, delay=4728ms): Ping "
            "failed, invalid value returned from server. Expected: 1234, Got: 99"
        ),
        (
            "[W1121 02:10:24.4 TCPStoreLibUvBackend.cpp:901] [c10d] Miscellaneous client without "
            "VALIDATE query is detected"
        ),
        (
            "[E1121 02:10:24.363736562 TCPStore.cpp:328] [c10d] TCP client failed to "
            "connect/validate to host 127.0.0.1:40639 - timed out (try=0, timeout=4000ms): "
            "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server "
            "shutdown or crash?"
        ),
    ),
    misses=(
        (
            "[W1121 02:09:59.4 TCPStore.cpp:340] [c10d] TCP client failed to connect/validate to "
            "host 127.0.0.1:39473 - retrying (try=0, timeout=4000ms, delay=4666ms): The client "
            "socket has timed out after 4000ms while trying to connect to (127.0.0.1, 39473)."
        ),
    ),
    outranks=("store-client-timeout",),
)
