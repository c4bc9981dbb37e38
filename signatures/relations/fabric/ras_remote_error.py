"""Ranks that lost a peer, in NCCL's RAS report.

"Remote process error", status ABORT and time-outs while the data was gathered all follow from a
process that is gone or silent.

The DEAD and INCOMPLETE blocks of the same report name it.
"""

from whyhang.analyzer.match import either, ras
from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-remote-error",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="Ranks report a lost peer or have aborted (NCCL RAS)",
    when=either(
        ras("remote", "aborted", "timeouts", named=False),
        log(
            r"ranks? reported Remote process error",
            r"Rank \d+ reported Remote process error",
            r"ranks? ha(?:ve|s) status ABORT",
            r"Rank \d+ has status ABORT",
            r"Encountered \d+ communication timeouts? while gathering communicator data",
        ),
    ),
    means="These ranks only feel that another process is gone.",
    confidence="likely",
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  3 ranks reported Remote process error",
        "  Rank 2 has status ABORT -- GPU 2 managed by process 903 on node 10.1.0.4",
        "  Encountered 2 communication timeouts while gathering communicator data",
        "  Rank 5 reported Remote process error -- GPU 5 managed by process 906 on node 10.1.0.4",
        "  7 ranks have status ABORT",
    ),
    misses=("  Rank 5 reported System error -- GPU 5 managed by process 48213 on node 10.1.0.4",),
)
