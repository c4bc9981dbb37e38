"""A rank looks for a neighbour's shared memory segment and finds nothing.

NCCL takes both for ranks of one host, but they live in different containers or IPC namespaces,
or something removed the segment: systemd's RemoveIPC at logout, a clean-up script.

The segment was made by a neighbour that may also have died; then that comes first.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-shm-not-shared",
    category="nccl-p2p-or-acs",
    kind=Kind.CAUSE,
    title="Ranks of one host do not see each other's /dev/shm",
    when=log(
        (
            r"[Ee]rror while attaching to shared memory segment \S+ \(size \d+\).*No such file "
            r"or directory"
        ),
        r"Could not map /dev/shm/\S+ size \d+, error",
    ),
    means="NCCL's shared memory between ranks of this host is not shared, so they cannot connect.",
    confidence=0.75,
    remedies=(
        "Run the ranks of a host in one container, or share /dev/shm and the IPC namespace.",
        "Else give each container its own NCCL_HOSTID, so that NCCL uses the network between them.",
        "Set RemoveIPC=no in logind.conf.",
    ),
    next_steps=("readlink /proc/PID/ns/ipc /proc/PID/ns/mnt  # of the ranks of that host",),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",),
    matches=(
        (
            "node3:99:140 [1] misc/shmutils.cc:114 NCCL WARN Error while attaching to shared "
            "memory segment /dev/shm/nccl-aB3dEf (size 33030528), error: No such file or "
            "directory (2)"
        ),
        (
            "node3:99:140 [1] misc/shmutils.cc:60 NCCL WARN Could not map /dev/shm/nccl-aB3dEf "
            "size 33030528, error: Cannot allocate memory"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/shmutils.cc:180 NCCL WARN unlink shared memory "
            "/dev/shm/nccl-aB3dEf failed, error: No such file or directory"
        ),
    ),
    outranks=("launcher-exit-code",),
)
