"""The parent of torch.multiprocessing.spawn names the first process that failed.

The number is the index of the process on that host, which is its rank only in a job of one
host. The parent looks at them in turn, so of several that fail together, from one timeout for
instance, it names just one.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="spawned-process-failed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Process {rank} of mp.spawn failed first",
    when=log(
        r"-- Process (?P<rank>\d+) terminated with the following error:",
        (
            r"ProcessExitedException: process (?P<rank>\d+) terminated with (?:signal "
            r"SIG(?:SEGV|BUS|ABRT|FPE|ILL)|exit code \d+)"
        ),
        blames=Blames.NAMED,
    ),
    unless=log(
        r"[Ww]atchdog caught collective operation timeout",
        r"Timed out waiting \d+ms for (?:recv|send) operation",
        r"torch\.distributed\.Dist\w+Error: ",
        r"Connection (?:closed|reset) by (?:remote )?peer ",
    ),
    means=(
        "The parent of the job saw process {rank} fail and ended the others. The lines that "
        "follow hold the reason."
    ),
    confidence=0.45,
    remedies=(
        "Read the error that follows this line; it is that of the process, not of the parent.",
    ),
    links=("https://pytorch.org/docs/stable/notes/multiprocessing.html",),
    matches=(
        "-- Process 1 terminated with the following error:",
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with "
            "signal SIGSEGV"
        ),
        "ProcessExitedException: process 0 terminated with exit code 1",
    ),
    misses=(
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
            "signal SIGKILL"
        ),
        (
            "W1121 02:11:00.3 16479 torch/multiprocessing/spawn.py:165] Terminating process "
            "16481 via signal SIGTERM"
        ),
        (
            "[rank3]:[E1206 18:44:16.997 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
        (
            "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
            "1800000ms for recv operation to complete"
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
            "unhandled system error"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer node9<55912>"
        ),
    ),
)
