"""MPI's signal handler reports a crash in this process.

Open MPI prints the process's host and pid, then the signal and a back-trace; MVAPICH names the
rank. Segmentation faults and bus errors come from native code, a full /dev/shm, or mixed
libraries.

"Signal: Terminated" and "Aborted" are left out: they follow from somebody else's decision.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-process-crashed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} crashed in native code ({reason})",
    when=log(
        (
            r"\[[^\s:\]]+:(?P<pid>\d+)\] Signal: (?P<reason>Segmentation fault|Bus error|"
            r"Floating point exception|Illegal instruction) \(\d+\)"
        ),
        r"\[\S+:mpi_rank_(?P<rank>\d+)\]\[error_sighandler\] Caught error: (?P<reason>[\w ]+)",
        blames=Blames.NAMED,
    ),
    means="This process crashed. The other ranks wait for it until they are ended.",
    confidence=0.86,
    remedies=(
        "Look at the back-trace under the message: which library?",
        "For a bus error check the space in /dev/shm and /tmp.",
    ),
    next_steps=("Run with PYTHONFAULTHANDLER=1 to see the Python line",),
    matches=(
        "[n0042:20133] Signal: Segmentation fault (11)",
        "[n0042:20133] Signal: Bus error (7)",
        "[n0042:mpi_rank_3][error_sighandler] Caught error: Segmentation fault (signal 11)",
    ),
    misses=(
        "[n0042:20133] *** Process received signal ***",
        "[n0042:20133] Signal: Terminated (15)",
    ),
    outranks=(
        "mpirun-exit-code",
        "launcher-exit-code",
    ),
)
