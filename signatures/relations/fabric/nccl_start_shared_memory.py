"""Ranks went silent while NCCL connected GPUs of one host through shared memory.

The last lines say "via SHM": both ranks map a segment of /dev/shm. It is full, too small (64 MiB
in a container), or not the same for both ranks: two containers with one host name.

With shared memory off the same job starts over the network: that proves it.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-shared-memory",
    category="shm-too-small",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL hangs while it connects ranks of one host through /dev/shm",
    when=nccl_start("connecting", via="SHM"),
    means=(
        "The last lines of the ranks tell of connections through shared memory. "
        "They do not come about."
    ),
    confidence="possible",
    remedies=(
        "Give the containers more shared memory, one for all ranks of a host (--ipc=host).",
        "Remove segments of dead jobs: /dev/shm/nccl-*.",
    ),
    next_steps=(
        "Run again with NCCL_SHM_DISABLE=1: it starts if this is it.",
        "df -h /dev/shm; ls -l /dev/shm  # inside the container of each rank",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    gives_way=True,
    explains=("stuck-together",),
)
