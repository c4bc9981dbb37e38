"""mpirun names the process that was killed first.

Nobody sends SIGKILL by mistake: the kernel's OOM killer, a memory limit of the batch system or
container, or an operator. The process could print nothing.

The rank is that of MPI_COMM_WORLD. The kernel log of that node tells whether it was memory.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-rank-killed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} on {node} was killed (signal 9)",
    when=log(
        (
            r"noticed that (?:process|job) rank (?P<rank>\d+) with PID \d+ on node "
            r'"?(?P<node>[^\s"]+)"? exited on signal 9\b'
        ),
        r"^(?P<node>[\w.-]+): rank (?P<rank>\d+) died from signal 9\b",
        blames=Blames.NAMED,
    ),
    means=(
        "This rank was killed from outside, most often for using too much memory, and mpirun "
        "stopped the rest."
    ),
    confidence=0.88,
    remedies=(
        (
            "Check that node's kernel log for the OOM killer; raise the memory limit or use "
            "less memory per node."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -i 'killed process'  # on that node",
        "sacct -j JOB -o JobID,State,MaxRSS,ReqMem  # or: kubectl describe pod POD",
    ),
    matches=(
        "x4502c1s3b0n0.hsn.example.org: rank 17 died from signal 9",
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "9 (Killed)."
        ),
        (
            "prterun noticed that process rank 0 with PID 5512 on node node7 exited on signal "
            "9 (Killed)."
        ),
    ),
    misses=(
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "15 (Terminated)."
        ),
    ),
    outranks=(
        "mpirun-exit-code",
        "launcher-exit-code",
    ),
)
