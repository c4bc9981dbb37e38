"""A call of NCCL failed, and it said why in words that have no signature of their own.

PyTorch repeats NCCL's last warning behind "Last error:", even where NCCL_DEBUG is not set; else
the reason is a WARN line. With several ranks, the one that failed first may say something else
than the others, which only lost their peer.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.match.nccl_error import nccl_said
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-failed-saying-why",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    level="peer",
    title="NCCL failed: {what}",
    when=nccl_said(),
    unless=log(
        r"ncclRemoteError|remote process exited or there was a network error",
        r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
    ),
    means=(
        "A call of NCCL failed and the job ended on it. These are its own words for the reason; "
        "they blame no rank."
    ),
    confidence="possible",
    remedies=(
        "Read the WARN lines of all ranks (NCCL_DEBUG=WARN): the first of them is the cause.",
    ),
    next_steps=(
        "grep -n 'NCCL WARN' LOG  # in the logs of all ranks",
        "df -h /dev/shm; ulimit -l; nvidia-smi; dmesg -T | grep -i xid  # on each host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    misses=(
        "[rank1]: ncclRemoteError: A call failed possibly due to a network error",
        "[rank1]: socketProgress: Connection closed by remote peer n9<55912>",
    ),
    explains=("nccl-unhandled-error", "launcher-exit-code", "plain-exception"),
    gives_way=True,
)
