"""A launcher names the first worker of its host that ended by SIGABRT, and nothing says why.

With NCCL it mostly is the watchdog that ended the process after a timeout, and has lines of its
own; a rank that the launcher names is a victim then, and nothing is said. Otherwise it is an
exception of C++ that nobody caught, a failed assertion, or damaged memory of that rank.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-saw-abort",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} ended first, with SIGABRT",
    when=log(
        r"failed \(exitcode: (?:-6|134)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)",
        r"Child process with PID (?P<pid>\d+) terminated with code -6\.",
        blames=Blames.NAMED,
    ),
    unless=log(
        r"ProcessGroup\w+\.cpp:\d+\]",
        r"[Ww]atchdog caught collective operation timeout",
        r"Timed out waiting \d+ms for (?:recv|send) operation",
        r"torch\.distributed\.Dist\w+Error: ",
        r"Connection (?:closed|reset) by (?:remote )?peer ",
    ),
    means=(
        "The launcher saw this process end itself first, and then ended its siblings. The reason "
        "stands in that process's own output: 'terminate called', an assertion, a CUDA error."
    ),
    confidence=0.4,
    gives_way=True,
    remedies=("Read the last lines of that process.",),
    next_steps=("Look for 'terminate called' and 'Assertion' in the output of that rank",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        "failed (exitcode: -6) local_rank: 2 (pid: 4711) of binary: /opt/env/bin/python3",
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -6) "
            "local_rank: 0 (pid: 41) of binary: /opt/conda/bin/python"
        ),
        (
            "[rank: 1] Child process with PID 4711 terminated with code -6. Forcefully "
            "terminating all other processes to avoid zombies"
        ),
    ),
    misses=(
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) "
            "local_rank: 0 (pid: 41) of binary: /opt/conda/bin/python"
        ),
        "[E ProcessGroupNCCL.cpp:494] To avoid data inconsistency, we are taking the process down.",
        (
            "[rank3]: [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
            "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
        "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970",
        (
            "node3:99:140 [1] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by "
            "remote peer node9<55912>"
        ),
    ),
)
