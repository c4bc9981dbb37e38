"""A rank could not connect to the store in time (torch up to 1.8).

Newer versions name the address they tried; these only say how long. MASTER_ADDR or MASTER_PORT is
wrong or differs between hosts, a firewall drops the packets, or rank 0 has not been started.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-connect-timed-out",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="Nobody answered at MASTER_ADDR:MASTER_PORT, where the store should be",
    when=log(r"RuntimeError: connect\(\) timed out\. Original timeout was (?P<limit>\d+) ms"),
    means=(
        "A rank tried for {limit} ms to reach the store that rank 0 opens and gave up. This "
        "version of torch does not say which address it tried."
    ),
    confidence=0.8,
    remedies=(
        "Give every rank the same MASTER_ADDR and MASTER_PORT: rank 0's host and a free port.",
        "Start rank 0 as well, and let the port through the firewall between the hosts.",
    ),
    next_steps=("nc -vz $MASTER_ADDR $MASTER_PORT  # from the host that gave up",),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        "RuntimeError: connect() timed out. Original timeout was 1800000 ms.",
        "[rank2]: RuntimeError: connect() timed out. Original timeout was 60000 ms.",
    ),
    misses=(
        "RuntimeError: [Errno 110] Connection timed out",
        "requests.exceptions.ConnectTimeout: connection timed out. (connect timeout=10)",
    ),
    outranks=("launcher-exit-code", "spawned-process-failed", "slurm-task-failed"),
)
