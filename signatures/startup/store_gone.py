"""A process lost its connection to the store.

Whoever hosts it (rank 0, or the agent on the first node) is gone. At the very end of a job,
when rank 0 finishes first, the line is harmless. In the middle it means that rank 0 died; its
own first error is the cause.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-gone",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The store is gone: the process that hosted it ended first",
    when=log(
        r"Failed to recv, got 0 bytes\. Connection was likely closed",
        r"Failed to send, sent 0 bytes\. Connection was likely closed",
        r"(?:recvValueWithTimeout|recvValue|recvVector|sendBytes) failed on SocketImpl\(",
        r"Failed to check the .should dump. flag on TCPStore",
        r"TCPStore check for dump key .* failed \(store unavailable",
        r"Failed to broadcast signal \S+ through TCPStore",
        r"TCPStoreMasterDaemon::run\(\) failed with exception: ",
        r"RuntimeError: (?:Broken pipe|Connection reset by peer)$",  # torch up to 1.12
    ),
    means=(
        "The store lives in rank 0 or in the launcher on its node. It closed the connection, so "
        "that process ended, normally or not, before this one."
    ),
    confidence=0.6,
    next_steps=("Read the end of rank 0's log, and the launcher's on its node",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        "RuntimeError: Connection reset by peer",
        "RuntimeError: Broken pipe",
        (
            "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was "
            "likely closed. Did the remote server shutdown or crash?"
        ),
        (
            "[W1121 02:09:55.545737478 TCPStore.cpp:138] [c10d] recvValueWithTimeout failed on "
            "SocketImpl(fd=4, addr=[::ffff:127.0.0.1]:55648, remote=[::ffff:127.0.0.1]:38901): "
            "Failed to recv, got 0 bytes."
        ),
        (
            "[W1206 18:44:17.1 ProcessGroupNCCL.cpp:1524] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
            'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has '
            "shut down too early), with error: Broken pipe"
        ),
        (
            "Failed to send, sent 0 bytes. Connection was likely closed. Did the remote server "
            "shutdown or crash?"
        ),
        (
            'TCPStore check for dump key "exception_dump" failed (store unavailable, not '
            "absent key). Cannot detect remote dump signals."
        ),
        "Failed to broadcast signal exception_dump through TCPStore. Error: Broken pipe",
        (
            "[W1121 02:10:24.3 TCPStore.cpp:122] [c10d] TCPStoreMasterDaemon::run() failed "
            "with exception: Connection reset by peer"
        ),
    ),
    misses=(
        "BrokenPipeError: [Errno 32] Broken pipe",
        (
            "urllib3.exceptions.ProtocolError: ('Connection aborted.', ConnectionResetError(104, "
            "'Connection reset by peer'))"
        ),
    ),
)
