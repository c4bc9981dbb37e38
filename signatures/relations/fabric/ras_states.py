"""What NCCL's health network (RAS) says of single ranks, in a report or in lines of one."""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Blames, Case, Hit, Kind, Signature

NO_ANSWER = r"^\s*Process (?P<pid>\d+) on node (?P<node>\S+) managing GPUs? (?P<gpu>[\d,]+)"
OWN_ERROR = (
    r"Rank \d+ reported (?P<error>Unhandled CUDA error|System error|Internal error|"
    r"Invalid argument|Invalid usage) -- GPU.* managed by process (?P<pid>\d+) on node "
    r"(?P<node>\S+)"
)
LEFT = (
    r"Rank \d+ has status (?P<status>NOCOMM|UNKNOWN|FINALIZE) -- GPU.* managed by "
    r"process (?P<pid>\d+) on node (?P<node>\S+)"
)
REMOTE = (
    r"ranks? reported Remote process error",
    r"Rank \d+ reported Remote process error",
    r"ranks? ha(?:ve|s) status ABORT",
    r"Rank \d+ has status ABORT",
    r"Encountered \d+ communication timeouts? while gathering communicator data",
)


def process_missing(case: Case) -> Iterable[Hit]:
    lines = queries.logged(case, NO_ANSWER, blames=Blames.NAMED)
    return queries.merged(queries.ras_reported(case, "dead", "unresponsive"), lines)


def rank_error(case: Case) -> Iterable[Hit]:
    lines = queries.logged(case, OWN_ERROR, blames=Blames.NAMED)
    return queries.merged(queries.ras_reported(case, "error"), lines)


def rank_left(case: Case) -> Iterable[Hit]:
    lines = queries.logged(case, LEFT, blames=Blames.NAMED)
    return queries.merged(queries.ras_reported(case, "left", "leaving"), lines)


def remote_error(case: Case) -> Iterable[Hit]:
    lines = queries.logged(case, *REMOTE)
    return queries.merged(
        queries.ras_reported(case, "remote", "aborted", "timeouts", named=False), lines
    )


PROCESS_MISSING = Signature(
    id="ras-process-missing",
    story="""\
NCCL's RAS report lists a process that gave no answer.

Under INCOMPLETE it did not answer in time: stopped (SIGSTOP, debugger), hung in the kernel, its
host cut off, or already gone. Under DEAD it has been silent for more than a minute. The RAS
thread answers even while Python hangs, so silence means the whole process.

The node is the bootstrap address, the pid is that of its own pid namespace.
""",
    category="rank-died",
    level="peer",
    title="{who} does not answer NCCL's health check (process {pid} on {node}, GPU {gpu})",
    when=process_missing,
    patterns=(NO_ANSWER,),
    means=(
        "A process of the job does not answer at all. All ranks that share a communicator with "
        "it wait for it."
    ),
    confidence="likely",
    remedies=(
        (
            "Look at that process: gone, stopped (state T) or stuck in the kernel (state D)? "
            "Then restart the job without its host."
        ),
    ),
    next_steps=(
        "ps -o pid,stat,wchan:30,cmd -p PID; dmesg -T  # on that node",
        "Ask RAS again after a minute: INCOMPLETE that becomes DEAD is gone for good",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  Process 48213 on node 10.1.0.4 managing GPU 5",
        "  Process 903 on node 10.1.0.4 managing GPUs 0,1",
    ),
    misses=(
        "[2026-07-01 13:07:07] PEER_NEW: Process 48213 on node 10.1.0.4 managing GPU 5",
        "  Rank 5 -- GPU 5 managed by process 48213 on node 10.1.0.4",
    ),
)

RANK_ERROR = Signature(
    id="ras-rank-error",
    story="""\
A rank has an error in NCCL's RAS report that is not a lost peer.

Unhandled CUDA error, System error, Internal error, Invalid argument or usage: something failed
on this rank itself. "Remote process error" on others is only its echo.

The rank number is the communicator's; the process id tells which global rank it is.
""",
    category="nccl-internal-error",
    level="peer",
    title="{who} reports an NCCL error of its own ({error})",
    when=rank_error,
    patterns=(OWN_ERROR,),
    means="This rank failed by itself; the others see a lost peer or wait.",
    confidence="likely",
    remedies=("Read this process's NCCL WARN lines and its first traceback.",),
    next_steps=("grep 'NCCL WARN' LOG; dmesg -T | grep Xid  # the log of that rank, on its node",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  Rank 5 reported Unhandled CUDA error -- GPU 5 managed by process 48213 on node 10.1.0.4",
        "  Rank 0 reported System error -- GPU 0 managed by process 480 on node 10.1.0.4",
    ),
    misses=(
        "  Rank 4 reported Remote process error -- GPU 4 managed by process 48212 on node 10.1.0.4",
    ),
)

RANK_LEFT_COMMUNICATOR = Signature(
    id="ras-rank-left-communicator",
    story="""\
A rank's status differs from the others in NCCL's RAS report.

NOCOMM: its process answers but has left or destroyed the communicator, or never finished
joining; FINALIZE: it is leaving. The others still run: the rank went on, ended early, or raised
an exception and tore its groups down.

The rank number is the communicator's; the process id tells which global rank it is.
""",
    category="missing-rank-in-collective",
    level="peer",
    title="{who} is not in a communicator that the others are in",
    when=rank_left,
    patterns=(LEFT,),
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
)

REMOTE_ERROR = Signature(
    id="ras-remote-error",
    story="""\
Ranks that lost a peer, in NCCL's RAS report.

"Remote process error", status ABORT and time-outs while the data was gathered all follow from a
process that is gone or silent.

The DEAD and INCOMPLETE blocks of the same report name it.
""",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    level="peer",
    title="Ranks report a lost peer or have aborted (NCCL RAS)",
    when=remote_error,
    patterns=REMOTE,
    means="These ranks only feel that another process is gone.",
    confidence="likely",
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    matches=(
        "  3 ranks reported Remote process error",
        "  Rank 2 has status ABORT -- GPU 2 managed by process 903 on node 10.1.0.4",
        "  Encountered 2 communication timeouts while gathering communicator data",
        "  Rank 5 reported Remote process error -- GPU 5 managed by process 906 on node 10.1.0.4",
        "  7 ranks have status ABORT",
    ),
    misses=("  Rank 5 reported System error -- GPU 5 managed by process 48213 on node 10.1.0.4",),
)

INIT_PENDING = Signature(
    id="ras-init-pending",
    story="""\
A communicator is still being set up on ranks that NCCL's health network lists.

A communicator is listed once all its ranks have met, so nobody is missing: what takes time, or
hangs, is the search of the topology and the connections (P2P, shared memory, InfiniBand, NVLS).

The last INFO line of each rank's NCCL log says which.
""",
    category="nccl-internal-error",
    level="wait",
    title="{who} still sets up communicator {comm} (NCCL RAS status INIT)",
    when=lambda case: queries.ras_reported(case, "starting", named=False),
    means=(
        "All ranks of the communicator have met, and its connections are not done. If this "
        "lasts, a transport between two of its ranks hangs."
    ),
    confidence="possible",
    remedies=(
        (
            "Try one switch at a time: NCCL_P2P_DISABLE=1, NCCL_SHM_DISABLE=1, NCCL_IB_DISABLE=1, "
            "NCCL_NVLS_ENABLE=0, NCCL_CUMEM_ENABLE=0."
        ),
    ),
    next_steps=(
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,P2P,SHM,NVLS: the last line of each rank",
        "whyhang --native always PID",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
)

SIGNATURES = (PROCESS_MISSING, RANK_ERROR, RANK_LEFT_COMMUNICATOR, REMOTE_ERROR, INIT_PENDING)
