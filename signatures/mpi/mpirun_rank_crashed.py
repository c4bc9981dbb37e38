"""mpirun names the process that a signal ended first.

Signal 11 is a crash in native code, 6 an abort (an assertion, a C++ exception, NCCL's
watchdog), 7 a bus error (often a full /dev/shm), 8 a floating-point trap. mpirun then ends the
other ranks; what they say afterwards is an effect.

The rank is that of MPI_COMM_WORLD. Signals 9 and 15 have signatures of their own.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-rank-crashed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} on {node} ended on signal {signal}",
    when=log(
        (
            r"noticed that (?:process|job) rank (?P<rank>\d+) with PID \d+ on node "
            r'"?(?P<node>[^\s"]+)"? exited on signal (?P<signal>3|4|5|6|7|8|11|13|16|24|25|31)\b'
        ),
        (
            r"^(?P<node>[\w.-]+): rank (?P<rank>\d+) died from signal "
            r"(?P<signal>3|4|5|6|7|8|11|13|16|24|25|31)\b"
        ),
        blames=Blames.NAMED,
    ),
    means="This rank was ended by a signal, and mpirun stopped the rest.",
    confidence=0.88,
    remedies=(
        "Read what this rank printed last: its own error stands before mpirun's message.",
        "For signal 11 run with PYTHONFAULTHANDLER=1 or take a core file; for 7 check /dev/shm.",
    ),
    next_steps=(
        "Run mpirun --tag-output (Open MPI 5: --output tag): it tells whose line is whose.",
        "dmesg -T | grep segfault  # on that node",
    ),
    matches=(
        "x4502c1s3b0n0.hsn.example.org: rank 17 died from signal 11 and dumped core",
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "11 (Segmentation fault)."
        ),
        (
            "prterun noticed that process rank 1 with PID 771 on node node7 exited on signal 6 "
            "(Aborted)."
        ),
        'mpirun noticed that job rank 1 with PID 15245 on node "node7" exited on signal 11.',
    ),
    misses=(
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "9 (Killed)."
        ),
        (
            "mpirun noticed that the job aborted, but has no info as to the process that "
            "caused that situation."
        ),
    ),
    outranks=(
        "mpirun-exit-code",
        "mpi-process-crashed",
        "launcher-exit-code",
    ),
)
