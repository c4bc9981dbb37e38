"""The store's host name is a bare number, and that is read as an address.

Containers and cluster hosts are sometimes called "6841231" or "05". The resolver takes a bare
number for an IPv4 address, 0.104.99.143 or 0.0.0.5, before it looks at /etc/hosts or DNS, and
nobody answers there. torchrun without --master_addr uses the name of the host it runs on.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-host-is-number",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    title="The store's host name is a bare number, read as the address {address}",
    when=log(
        r"connect to (?:\[::ffff:)?(?P<address>0\.(?:0\.0\.[1-9]\d*|0\.[1-9]\d*\.\d+"
        r"|[1-9]\d*\.\d+\.\d+))\]?:\d+ \(errno"
    ),
    means=(
        "No host has an address that begins with 0. The name of the store's host consists of "
        "digits only, and the resolver takes such a name for an address."
    ),
    confidence=0.9,
    remedies=(
        (
            "Set MASTER_ADDR (torchrun --master_addr or --rdzv_endpoint) to 127.0.0.1 on one host, "
            "to rank 0's real address on several."
        ),
        "Give the host or container a name that holds a letter.",
    ),
    next_steps=("hostname; getent hosts $(hostname)  # on the host of rank 0",),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
            "[::ffff:0.104.99.143]:47389 (errno: 110 - Connection timed out)."
        ),
        (
            "[W socket.cpp:558] [c10d] The client socket has failed to connect to "
            "0.0.0.5:40323 (errno: 110 - Connection timed out)."
        ),
    ),
    misses=(
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
            "0.0.0.0:29500 (errno: 111 - Connection refused)."
        ),
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
            "[::ffff:10.0.0.5]:29500 (errno: 110 - Connection timed out)."
        ),
    ),
    outranks=(
        "store-connect-refused",
        "store-connect-timed-out",
        "store-client-timeout",
        "rendezvous-connection-error",
        "launcher-exit-code",
    ),
)
