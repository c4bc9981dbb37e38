"""mpirun's general words at the end of a failed job.

One process returned a non-zero exit code, or a signal ended it, and the job is aborted. Which
one stands in another line, if mpirun knows it.

Its "see other messages" and help-message counts belong here too.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-ended-the-job",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="mpirun ended the job because a process failed",
    when=log(
        r"Primary job +terminated normally, but \d+ process",
        r"detected that one or more processes exited with non-zero status",
        r"noticed that the job aborted, but has no info as to the process",
        r"noticed that the job aborted by signal, but has no info",
        r"NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes",
        r"one of the processes terminated badly; aborting",
        r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        r"YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
    ),
    means="mpirun stopped the remaining processes; the first failure stands elsewhere.",
    confidence=0.8,
    gives_way=True,
    matches=(
        "Primary job  terminated normally, but 1 process returned",
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
        "mpirun noticed that the job aborted, but has no info as to the process",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "mpirun noticed that the job aborted by signal, but has no info as to the process",
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
        (
            "[mpiexec@n0042] HYDT_bscu_wait_for_completion (bscu_wait.c:109): one of the "
            "processes terminated badly; aborting"
        ),
        "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
    ),
    misses=(
        (
            "mpirun noticed that process rank 3 with PID 20133 on node n0042 exited on signal "
            "9 (Killed)."
        ),
    ),
)
