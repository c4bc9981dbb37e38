"""A bootstrap message has another size than this rank expects.

The ranks are at different steps of communicator set-up: one splits or creates a group while
another destroys or creates a different one, two groups are made concurrently in different
order, or (before NCCL 2.23, which checks) the versions differ.

It names neither side. Compare the order of new_group and first collectives on the ranks. Not
the same as "message truncated" of NET/Socket, which is about the size of a collective.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-bootstrap-truncated",
    category="group-creation-mismatch",
    kind=Kind.CAUSE,
    title=(
        "Ranks set up different communicators at the same time (bootstrap message of {got} "
        "instead of {want} bytes)"
    ),
    when=log(
        r"Message truncated : received (?P<got>\d+) bytes instead of (?P<want>\d+)",
        r"Message truncated : received (?P<got>\d+),\d+ (?:bytes )?instead of (?P<want>\d+)",
    ),
    means=(
        "Two ranks exchanged set-up messages of different communicators: groups are created in "
        "different order on the ranks, or the NCCL versions differ."
    ),
    confidence=0.7,
    remedies=(
        (
            "Create groups and run their first collective in the same order on all ranks, from "
            "one thread."
        ),
        "Use one NCCL version everywhere.",
    ),
    next_steps=(
        "Compare the order of 'Init START' lines (commId, nranks) of the ranks",
        "Compare the 'NCCL version' lines of the ranks",
    ),
    links=(
        "https://github.com/NVIDIA/nccl/issues/1176",
        "https://github.com/NVIDIA/nccl/issues/1273",
    ),
    matches=(
        (
            "node3:99:140 [1] bootstrap.cc:121 NCCL WARN Message truncated : received 1024 "
            "bytes instead of 256"
        ),
        (
            "node3:99:140 [1] bootstrap.cc:300 NCCL WARN Message truncated : received 64,8 "
            "bytes instead of 128,8"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] transport/net_socket.cc:493 NCCL WARN NET/Socket : peer "
            "10.1.0.4<43210> message truncated : receiving 524288 bytes instead of 65536. If "
            "you believe your socket network is in healthy state, there may be a mismatch in "
            "collective sizes"
        ),
    ),
    outranks=("launcher-exit-code",),
)
