"""Lines that end an interruption.

An NFS server is OK again, a Lustre connection is restored, a link is up. They are good news,
and say that the lines before them belong to an interruption that is over.

Compare the times: a hang that goes on after them has another cause.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-noise-recovered",
    category="healthy",
    kind=Kind.NOISE,
    title="Storage or network of a host came back",
    when=log(
        r"nfs: server \S+ OK",
        r"Lustre: .*Connection restored to ",
        r"mlx[45]_core \S+:? (?:\S+: )?(?:Port: \d+ )?Link (?:UP|up|ACTIVE)",
    ),
    means="An interruption of storage or network was over at this point.",
    confidence=0.9,
    matches=(
        "[ 8899.1] nfs: server filer01 OK",
        "[ 992.2] mlx5_core 0000:0c:00.0 ens3f0np0: Link up",
        (
            "[ 8899.1] Lustre: scratch-OST0012-osc-ffff8881: Connection restored to "
            "10.0.9.2@o2ib (at 10.0.9.2@o2ib)"
        ),
    ),
    misses=("[ 8811.7] nfs: server filer01 not responding, still trying",),
)
