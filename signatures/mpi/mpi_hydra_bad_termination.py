"""The Hydra launcher (MPICH, Intel MPI) names a process that ended badly.

Newer versions give rank and pid, older only the pid. Intel MPI prints one block for every
process that it then kills with signal 9: the first block, or the one with another signal or
exit code, counts.

The reason stands before, in what that process printed.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-hydra-bad-termination",
    category="rank-died",
    kind=Kind.CAUSE,
    title="An MPI process ended badly on {node}",
    when=log(
        r"^=\s+RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<node>\S+)",
        r"^=\s+PID (?P<pid>\d+) RUNNING AT (?P<node>\S+)",
        blames=Blames.NAMED,
    ),
    means="Hydra found this process ended by an error or signal, and stopped the rest.",
    confidence=0.6,
    remedies=(
        "Read what this process printed last; check its node's kernel log if the signal is 9.",
    ),
    next_steps=("dmesg -T | grep -iE 'killed process|segfault'  # on that node",),
    matches=(
        "=   RANK 3 PID 65033 RUNNING AT n0042",
        "=   PID 12196 RUNNING AT n0016",
    ),
    misses=(
        "=   KILLED BY SIGNAL: 9 (Killed)",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    ),
    outranks=("launcher-exit-code",),
)
