"""A proxy thread lost a rank of its host.

Could not receive type, with a result that means a remote error (res=6) or a system error, or a
call to a local proxy that was never answered: the local process at the other end is gone.

The same words with res=3 belong to tear-down and mean nothing. The number is the local rank,
not the global one.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-local-peer-lost",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="The proxy thread lost its connection to a rank of its own host",
    when=log(
        r"\[Service thread\] Could not receive type from localRank \d+, res=[126], closed=\d",
        r"Socket recv failed while polling for opId=\S+",
        r"Comm 0x[0-9a-f]+ is in abort state",
    ),
    means=(
        "A rank of the same host went away or aborted; this is what its neighbours' helper "
        "threads say."
    ),
    confidence=0.7,
    matches=(
        (
            "node3:99:140 [1] proxy.cc:1497 NCCL WARN [Service thread] Could not receive type "
            "from localRank 2, res=6, closed=0"
        ),
        (
            "node3:99:140 [1] proxy.cc:1148 NCCL WARN Socket recv failed while polling for "
            "opId=0x147999b41d80"
        ),
        "node3:99:140 [1] proxy.cc:1180 NCCL WARN Comm 0x55d0c8a3b2c0 is in abort state",
    ),
    misses=(
        (
            "node3:99:140 [1] proxy.cc:1497 NCCL WARN [Service thread] Could not receive type "
            "from localRank 0, res=3, closed=0"
        ),
    ),
)
