"""Open MPI's launcher noted an internal error code.

"Data unpack ..." in show_help.c means that a help message was lost on its way, often the one
about MPI_ABORT or a failed MPI call. Other codes accompany a failed start.

The message proper stands before or after it, or was lost; the codes alone name no rank.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-launcher-error-log",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="Open MPI's launcher logged an error of its own",
    when=log(
        r"ORTE_ERROR_LOG: .* in file \S+ at line \d+",
        r"PRTE ERROR: .* in file \S+ at line \d+",
    ),
    means=(
        "The launcher met an error while the job was starting or ending; the reason is another "
        "message."
    ),
    confidence=0.4,
    gives_way=True,
    matches=(
        (
            "[n0042:23902] [[12704,0],0] ORTE_ERROR_LOG: Data unpack would read past end of "
            "buffer in file ../../../orte/util/show_help.c at line 501"
        ),
        "[n0042:20133] PRTE ERROR: Not found in file base/plm_base_launch_support.c at line 1820",
    ),
    misses=("[n0042:20133] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 2198",),
)
