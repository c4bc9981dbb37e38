"""A host or container without InfiniBand.

libibverbs is not installed or no card exists, so NCCL uses sockets. It is a finding only where
fast cards should be visible: then the container lacks /dev/infiniband or the library.

It makes jobs slow, not stuck.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-libibverbs",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL found no InfiniBand",
    when=log(
        r"Failed to open libibverbs\.so",
        r"NET/IB ?: No device found",
        r"Failed to initialize NET plugin IB",
        r"NET/IB ?: Failed to open mlx5dv symbols",
    ),
    means="NCCL runs over sockets here.",
    confidence=0.9,
    matches=(
        "node3:99:140 [1] NCCL INFO Failed to open libibverbs.so[.1]",
        "node3:99:140 [1] NCCL INFO NET/IB : No device found.",
        "node3:99:140 [1] NCCL INFO Failed to initialize NET plugin IB",
        "node3:99:140 [1] NCCL INFO NET/IB : Failed to open mlx5dv symbols.",
    ),
    misses=(
        "node3:99:140 [1] transport/net_ib.cc:400 NCCL WARN NET/IB : Unable to open device mlx5_2",
    ),
)
