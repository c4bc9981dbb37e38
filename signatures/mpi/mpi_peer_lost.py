"""A connection of MPI was closed or reset by its peer.

The process at the other end died or was ended. Open MPI says it itself: the root cause is the
failure of the peer.

Look for the rank that ended first, in mpirun's final message or in the kernel log.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-peer-lost",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="MPI lost the connection to a peer",
    when=log(
        r"mca_btl_tcp_\w+\].*failed: (?:Connection reset by peer|Broken pipe)",
        r"An MPI communication peer process has unexpectedly disconnected",
        r"UCX +(?:ERROR|WARN|DIAG) .*(?:Connection reset by remote peer|[Ee]ndpoint timeout)",
        r"\[proxy:\S+\] HYD\w+ .*assert \(!closed\) failed",
        (
            r"PMIX ERROR: (?:UNREACHABLE|LOST-CONNECTION|PMIX_ERR_UNREACH|"
            r"PMIX_ERR_LOST_CONNECTION) in file"
        ),
    ),
    means="The process at the other end is gone; this one only noticed.",
    confidence=0.8,
    matches=(
        (
            "[n0042][[51384,1],7][btl_tcp_frag.c:230:mca_btl_tcp_frag_recv] "
            "mca_btl_tcp_frag_recv: readv failed: Connection reset by peer (104)"
        ),
        "An MPI communication peer process has unexpectedly disconnected.  This",
        (
            "[1714000000.12] [n0042:20133:0]  tcp_ep.c:1048 UCX  ERROR tcp_ep 0x55: send() "
            "failed: Connection reset by remote peer"
        ),
        "[n0042:20133] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 2198",
        (
            "[proxy:0:1@n0042] HYD_pmcd_pmip_control_cmd_cb (proxy/pmip_cb.c:480): assert "
            "(!closed) failed"
        ),
    ),
    misses=("[n0042:20133] PMIX ERROR: PMIX_ERR_NO_PERMISSIONS in file dstore_base.c at line 238",),
)
