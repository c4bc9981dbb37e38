"""A process says in its last moment that it died of SIGBUS.

Shared memory is promised first and provided when it is touched; if /dev/shm is full by then,
the process gets SIGBUS. Memory-mapped data on a failing network file system gives the same
signal.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="bus-error",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="{who} died of a bus error, mostly a full /dev/shm",
    when=log(
        r"Fatal Python error: Bus error",
        r"Caught signal 7 \(Bus error: ",
        r"Bus error \(core dumped\)",
        blames=Blames.SPEAKER,
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
    next_steps=("df -h /dev/shm  # inside the container",),
    matches=(
        "Fatal Python error: Bus error",
        "[node1:4711:0:4711] Caught signal 7 (Bus error: nonexistent physical address)",
        "Bus error (core dumped)",
    ),
    misses=(
        (
            "ERROR: Unexpected bus error encountered in worker. This might be caused by "
            "insufficient shared memory (shm)."
        ),
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
