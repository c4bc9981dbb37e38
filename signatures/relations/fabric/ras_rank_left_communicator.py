"""A rank's status differs from the others in NCCL's RAS report.

NOCOMM: its process answers but has left or destroyed the communicator, or never finished
joining; FINALIZE: it is leaving. The others still run: the rank went on, ended early, or raised
an exception and tore its groups down.

The rank number is the communicator's; the process id tells which global rank it is.
"""

from whyhang.analyzer.match import either, ras
from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ras-rank-left-communicator",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="peer",
    title="{who} is not in a communicator that the others are in",
    when=either(
        ras("left", "leaving"),
        log(
            (
                r"Rank \d+ has status (?P<status>NOCOMM|UNKNOWN|FINALIZE) -- GPU.* managed by "
                r"process (?P<pid>\d+) on node (?P<node>\S+)"
            ),
            blames=Blames.NAMED,
        ),
    ),
    means="This rank's process lives but has left the communicator in which the others wait.",
    confidence="likely",
    remedies=(
        (
            "Look at what that process does now: an exception, the end of its data, or "
            "destroy_process_group before the others."
        ),
    ),
    next_steps=(
        "py-spy dump --pid PID  # on that node",
        "Read the end of that rank's log",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  Rank 2 has status NOCOMM -- GPU 2 managed by process 903 on node 10.1.0.4",
        "  Rank 5 has status FINALIZE -- GPU 5 (NVML 7) managed by process 48213 on node 10.1.0.9",
    ),
    misses=(
        "  3 ranks have status RUNNING",
        "  Rank 2 has status ABORT -- GPU 2 managed by process 903 on node 10.1.0.4",
    ),
    explains=("launcher-exit-code",),
)
