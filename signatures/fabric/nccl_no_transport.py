"""No transport can carry data between two ranks.

P2P, shared memory and network are all disabled or impossible for this pair: NCCL_P2P_DISABLE
with NCCL_SHM_DISABLE and no network, ranks of one host in separate containers without a network
plugin, or a plugin that failed to load.

The pair is given as ranks of the communicator, with the GPU's number in brackets.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-no-transport",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="NCCL has no way to connect two of its ranks",
    when=log(
        r"No transport found for rank \d+\[\w+\] -> rank \d+\[\w+\]",
        r"Rank \d+ has no transport for (?:send|recv) peer \d+ on channel \d+/\d+",
    ),
    means=(
        "Every way of moving data between these ranks is disabled or impossible, so the "
        "communicator cannot be set up."
    ),
    confidence=0.85,
    remedies=(
        (
            "Remove NCCL_P2P_DISABLE, NCCL_SHM_DISABLE, NCCL_NET and NCCL_IB_DISABLE settings "
            "one by one."
        ),
        "Give containers of one host a common /dev/shm and IPC namespace, or a network.",
    ),
    next_steps=(
        "grep 'set by environment' LOG  # in the NCCL INFO log of both ranks",
        "grep -E 'NET/|Using network' LOG  # in the NCCL INFO log",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [1] transport.cc:60 NCCL WARN No transport found for rank 0[1b000] "
            "-> rank 1[43000]"
        ),
        (
            "node3:99:140 [1] transport.cc:320 NCCL WARN Rank 3 has no transport for send peer "
            "5 on channel 0/1"
        ),
    ),
    misses=("node3:99:140 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC",),
    outranks=("launcher-exit-code",),
)
