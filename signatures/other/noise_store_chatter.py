"""The store notes a busy event loop at its end, or a short listen queue at its start.

A small somaxconn only matters for thousands of ranks that connect within the same second, and a
busy loop at the end only means that a client was still connected when the store was closed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-store-chatter",
    category="healthy",
    kind=Kind.NOISE,
    title="Harmless chatter of the store",
    when=log(
        r"uv_loop_close failed with: ?-16",
        r"Starting store with \d+ workers but somaxconn is \d+",
    ),
    means="Notes of the store about its shutdown or about a queue length; the job goes on.",
    confidence=0.85,
    matches=(
        (
            "[I1121 02:10:07.4 TCPStoreLibUvBackend.cpp:120] [c10d] uv_loop_close failed "
            "with:-16 errn:EBUSY desc:resource busy or locked"
        ),
        (
            "[W1121 02:10:07.4 TCPStore.cpp:90] [c10d] Starting store with 8192 workers but "
            "somaxconn is 4096.This might cause instability during bootstrap, consider "
            "increasing it."
        ),
    ),
    misses=("[c10d] The server socket has failed to listen on any local network address.",),
)
