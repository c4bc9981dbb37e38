"""NCCL's RAS monitor reports that a process died or went silent.

PEER_DEAD and PEER_TIMEOUT_DEAD are final, PEER_UNRESPONSIVE and a missed keep-alive are on the
way there. The RAS thread lives beside Python, so it is the whole process that is gone or
stopped.

The pid is that of its own pid namespace.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-peer-dead",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Process {pid} on {node} was declared dead by NCCL",
    when=log(
        (
            r"PEER_(?:DEAD|TIMEOUT_DEAD|UNRESPONSIVE|KEEPALIVE_TIMEOUT): Process (?P<pid>\d+) "
            r"on node (?P<node>\S+) managing GPU"
        ),
        blames=Blames.NAMED,
    ),
    means="This process no longer answers the health check of its peers; they wait for it.",
    confidence=0.9,
    remedies=("Look at that process and its host, then restart the job without it.",),
    next_steps=("ps -o pid,stat,wchan:30,cmd -p PID; dmesg -T  # on that node",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "[2026-07-01 13:07:07] PEER_DEAD: Process 48213 on node 10.1.0.4 managing GPU 5",
        (
            "[2026-07-01 13:07:01] PEER_UNRESPONSIVE: Process 48213 on node 10.1.0.4 managing "
            "GPU 5 no keep-alive for 5s"
        ),
    ),
    misses=(
        "[2026-07-01 13:07:07] PEER_NEW: Process 48213 on node 10.1.0.4 managing GPU 5",
        "[2026-07-01 13:07:09] PEER_RECOVERED: Process 48213 on node 10.1.0.4 managing GPU 5",
    ),
    outranks=("launcher-exit-code",),
)
