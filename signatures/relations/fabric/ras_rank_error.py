"""A rank has an error in NCCL's RAS report that is not a lost peer.

Unhandled CUDA error, System error, Internal error, Invalid argument or usage: something failed
on this rank itself. "Remote process error" on others is only its echo.

The rank number is the communicator's; the process id tells which global rank it is.
"""

from whyhang.analyzer.match import either, ras
from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-rank-error",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    level="peer",
    title="{who} reports an NCCL error of its own ({error})",
    when=either(
        ras("error"),
        log(
            (
                r"Rank \d+ reported (?P<error>Unhandled CUDA error|System error|Internal error|"
                r"Invalid argument|Invalid usage) -- GPU.* managed by process (?P<pid>\d+) on node "
                r"(?P<node>\S+)"
            ),
            blames=Blames.NAMED,
        ),
    ),
    means="This rank failed by itself; the others see a lost peer or wait.",
    confidence="likely",
    remedies=("Read this process's NCCL WARN lines and its first traceback.",),
    next_steps=("grep 'NCCL WARN' LOG; dmesg -T | grep Xid  # the log of that rank, on its node",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  Rank 5 reported Unhandled CUDA error -- GPU 5 managed by process 48213 on node 10.1.0.4",
        "  Rank 0 reported System error -- GPU 0 managed by process 480 on node 10.1.0.4",
    ),
    misses=(
        "  Rank 4 reported Remote process error -- GPU 4 managed by process 48212 on node 10.1.0.4",
    ),
    explains=("launcher-exit-code",),
)
