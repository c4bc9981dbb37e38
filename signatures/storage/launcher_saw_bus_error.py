"""A launcher reports that a worker died of SIGBUS.

Shared memory is promised first and provided when it is touched; if /dev/shm is full by then,
the process gets SIGBUS. NCCL's shared-memory transport and DataLoader batches both live there.
Memory-mapped data on a failing network file system gives the same signal.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-saw-bus-error",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="{who} died of a bus error, mostly a full /dev/shm",
    when=log(
        r"failed \(exitcode: (?:-7|135)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)",
        r"exitcode\s*: -7 \(pid: (?P<pid>\d+)\)",
        r"Signal 7 \(SIGBUS\) received by PID (?P<pid>\d+)",
        blames=Blames.NAMED,
    ),
    means=(
        "SIGBUS means that memory which is backed by a file could not be provided: /dev/shm is "
        "full, or a memory-mapped file was cut or its file system failed."
    ),
    confidence=0.65,
    remedies=(
        "Enlarge /dev/shm (--shm-size, --ipc=host, emptyDir with medium Memory).",
        "If the program memory-maps files, check the file system.",
    ),
    next_steps=(
        "df -h /dev/shm  # inside the container",
        "dmesg -T  # on that host",
    ),
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        "failed (exitcode: -7) local_rank: 1 (pid: 4711) of binary: /opt/env/bin/python3",
        "  exitcode  : -7 (pid: 4711)  (SIGBUS)",
        "  traceback : Signal 7 (SIGBUS) received by PID 4711",
    ),
    misses=("  exitcode  : -11 (pid: 4711)  (SIGSEGV)",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
