"""A communicator is being taken down after an error.

Its asynchronous error was set, its destroy found the stream in error, or a helper thread
noticed that a connection broke.

These lines follow from an error that stands earlier, on this rank or another.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-abort-in-progress",
    category="nccl-internal-error",
    kind=Kind.CONSEQUENCE,
    title="NCCL communicators are being aborted",
    when=log(
        r"commDestroySync: comm \S+ rank \d+ sync \w+ error \d+",
        r"commReclaim: ",
        r"ncclCommSetAsyncError: error comm \S+ sets state \d+",
        r"communicator encountered a fatal error \(detected in ",
        r"NET/Socket ?: socket progress error",
        r"Unexpected connections are not empty",
    ),
    means="Tear-down after an error: the cause is an earlier line, here or on another rank.",
    confidence=0.7,
    matches=(
        (
            "node3:99:140 [1] init.cc:2310 NCCL WARN commDestroySync: comm 0x55d0 rank 1 sync "
            "hostStream error 1"
        ),
        (
            "node3:99:140 [1] transport/net_ib.cc:210 NCCL WARN communicator encountered a "
            "fatal error (detected in ncclIbTest)"
        ),
        "node3:99:140 [1] transport/net_socket.cc:240 NCCL WARN NET/Socket : socket progress error",
        (
            "node3:99:140 [1] init.cc:1950 NCCL WARN commReclaim: comm 0x55d0 (rank = 1) in "
            "abort, error 6"
        ),
        (
            "node3:99:140 [1] init.cc:2100 NCCL WARN ncclCommSetAsyncError: error comm 0x55d0 "
            "sets state 6"
        ),
        "node3:99:140 [1] bootstrap.cc:610 NCCL WARN Unexpected connections are not empty",
    ),
    misses=(
        (
            "node3:99:140 [1] NCCL INFO comm 0x55d0 rank 1 nranks 8 cudaDev 1 busId 43000 - "
            "Destroy COMPLETE"
        ),
    ),
)
