"""A launcher names the first worker of its host that ended with an exit code.

Of several that fail within a moment, from one timeout for instance, it names the one that it
looked at first, so this line alone is weak. The exception printed by that process is the real
evidence. Where some process lost its connection or ran into a timeout, the one that the
launcher names may be a victim, so nothing is said then. With several hosts, each launcher names
its own.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-exit-code",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} failed first, with exit code {code}",
    when=log(
        r"failed \(exitcode: (?P<code>[1-9]\d*)\) local_rank: \d+ \(pid: (?P<pid>\d+)\) of",
        r"Child process with PID (?P<pid>\d+) terminated with code (?P<code>[1-9]\d*)\.",
        blames=Blames.NAMED,
    ),
    unless=log(
        r"[Ww]atchdog caught collective operation timeout",
        r"Timed out waiting \d+ms for (?:recv|send) operation",
        r"torch\.distributed\.Dist\w+Error: ",
        r"Connection (?:closed|reset) by (?:remote )?peer ",
    ),
    means=(
        "The launcher saw this process end with an error first and then ended its siblings. The "
        "reason stands in that process's own output: a Python exception, or a call of exit."
    ),
    confidence=0.45,
    remedies=(
        (
            "Read the last lines of that process; decorate main with "
            "torch.distributed.elastic.multiprocessing.errors.record to get its traceback into "
            "the table."
        ),
    ),
    next_steps=("Look for 'Traceback' in the log of that rank",),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "E1121 02:12:57.422000 17467 torch/distributed/elastic/multiprocessing/api.py:1002] "
            "failed (exitcode: 1) local_rank: 1 (pid: 17477) of binary: /opt/env/bin/python3"
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) "
            "local_rank: 0 (pid: 9000) of binary: /usr/bin/python"
        ),
        (
            "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully "
            "terminating all other processes to avoid zombies"
        ),
        (
            "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 137) "
            "local_rank: 0 (pid: 41) of binary: /bin/bash"
        ),
    ),
    misses=(
        (
            "E1121 02:13:03.595000 17493 torch/distributed/elastic/multiprocessing/api.py:1002] "
            "failed (exitcode: -9) local_rank: 1 (pid: 17506) of binary: /opt/env/bin/python3"
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
