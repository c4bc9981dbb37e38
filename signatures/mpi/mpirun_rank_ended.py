"""mpirun names the process that a signal ended first, and the signal on the next line.

Open MPI 5 (prterun) breaks the sentence before "signal 6 (Aborted)". mpirun then ends the other
ranks; what they say afterwards is an effect. The rank is that of MPI_COMM_WORLD.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-rank-ended",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} on {node} was ended by a signal",
    when=log(
        (
            r"noticed that (?:process|job) rank (?P<rank>\d+) with PID \d+ on node "
            r'"?(?P<node>[^\s"]+)"? exited on\s*$'
        ),
        blames=Blames.NAMED,
    ),
    unless=log(r"^signal (?:15|1|2) \("),
    means="This rank was ended by a signal, and mpirun stopped the rest.",
    confidence=0.8,
    remedies=(
        "Read what this rank printed last: its own error stands before mpirun's message.",
        (
            "For signal 11 run with PYTHONFAULTHANDLER=1 or take a core file; for 9 look for the "
            "out-of-memory killer, for 7 check /dev/shm."
        ),
    ),
    next_steps=(
        "mpirun --output tag  # on the next run: tells whose line is whose",
        "dmesg -T | grep -i -E 'segfault|killed process'  # on that node",
    ),
    matches=(
        "prterun noticed that process rank 7 with PID 0 on node n0304 exited on",
        "mpirun noticed that process rank 0 with PID 5512 on node node7 exited on ",
    ),
    misses=(
        "signal 15 (Terminated).",
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "11 (Segmentation fault)."
        ),
    ),
)
