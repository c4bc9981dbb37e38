"""A Lustre client was evicted or lost its server.

I/O on that mount blocks until recovery, or fails with an input/output error after an eviction.
Ranks that read data or write checkpoints there stop or die, and the others wait.

A "Connection restored" line ends it.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-lustre-disconnected",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="The Lustre file system was lost on a host",
    when=log(
        r"LustreError: .*(?:[Tt]his client was evicted|was evicted by)",
        r"Lustre: .*Connection to \S+ \(at \S+\) was lost",
        (
            r"LustreError: .*(?:operation \w+ to node \S+ failed: rc = -1(?:07|08|10)\b|"
            r"ptlrpc_expire_one_request)"
        ),
    ),
    means=(
        "This host lost its connection to the parallel file system, so its processes block or "
        "fail in file access."
    ),
    confidence=0.8,
    remedies=(
        (
            "Wait for or restore the servers (OSS, MDS) and the network to them; then restart "
            "the job from its last checkpoint."
        ),
    ),
    next_steps=(
        "lfs check servers; lfs df  # on that host",
        "dmesg -T | grep -E 'Lustre|LNet'",
    ),
    matches=(
        (
            "[ 8811.7] LustreError: 167-0: scratch-OST0012-osc-ffff8881: This client was "
            "evicted by scratch-OST0012; in progress operations using this service will fail."
        ),
        (
            "[ 8811.7] Lustre: scratch-MDT0000-mdc-ffff8881: Connection to scratch-MDT0000 (at "
            "10.0.9.1@o2ib) was lost; in progress operations using this service will wait for "
            "recovery to complete"
        ),
        (
            "[ 8811.7] LustreError: 11-0: scratch-OST0012-osc-ffff8881: operation ost_write to "
            "node 10.0.9.1@o2ib failed: rc = -107"
        ),
    ),
    misses=(
        (
            "[ 8899.1] Lustre: scratch-OST0012-osc-ffff8881: Connection restored to "
            "10.0.9.2@o2ib (at 10.0.9.2@o2ib)"
        ),
    ),
    outranks=("launcher-exit-code",),
)
