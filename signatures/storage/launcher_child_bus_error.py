"""DeepSpeed or the old torch launcher reports a child that died of SIGBUS.

Shared memory is promised first and provided when it is touched; if /dev/shm is full by then,
the process gets SIGBUS. The line names the command of the child started last, whichever died.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-child-bus-error",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="A process of the job died of a bus error, mostly a full /dev/shm",
    when=log(
        r"exits with return code = -7\b",
        r"died with <Signals\.SIGBUS: 7>",
    ),
    means=(
        "SIGBUS means that memory which is backed by a file could not be provided: /dev/shm is "
        "full, or a memory-mapped file was cut or its file system failed. NCCL and DataLoader "
        "workers both use /dev/shm."
    ),
    confidence=0.6,
    remedies=(
        "Enlarge /dev/shm (--shm-size, --ipc=host, emptyDir with medium Memory).",
        "If the program memory-maps files, check the file system.",
    ),
    next_steps=(
        "df -h /dev/shm  # inside the container",
        "dmesg -T  # on the hosts",
    ),
    links=("https://pytorch.org/docs/stable/data.html",),
    matches=(
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] "
            "['/usr/bin/python', '-u', 'train.py', '--local_rank=1'] exits with return code = -7"
        ),
        (
            "subprocess.CalledProcessError: Command '['/usr/bin/python', 'train.py']' died with "
            "<Signals.SIGBUS: 7>."
        ),
    ),
    misses=(
        (
            "[2024-03-01 10:00:00,000] [ERROR] [launch.py:321:sigkill_handler] "
            "['/usr/bin/python', 'train.py'] exits with return code = 7"
        ),
    ),
    gives_way=True,
)
