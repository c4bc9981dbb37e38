"""Making or attaching a shared memory segment failed without a reason in the line.

Older NCCL prints only the name and size. Mostly /dev/shm is too small (docker's default is 64
MiB); else it is not writable or not shared between the ranks of the host.

Newer versions add the error and fall under nccl-shm-full or nccl-shm-not-shared.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-shm-segment-failed",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="NCCL could not make a shared memory segment",
    when=log(
        r"[Ee]rror while (?:creating|attaching to) shared memory segment \S+ \(size \d+\)\s*$",
        (
            r"[Ee]rror(?: while creating shared memory segment|: failed to create shared memory "
            r"file) \S+.*(?:Permission denied|Read-only file system|Cannot allocate memory)"
        ),
    ),
    means="NCCL's shared memory could not be set up on this host.",
    confidence=0.7,
    remedies=(
        (
            "Give the container more shared memory (--shm-size=16g, --ipc=host, or an emptyDir "
            "of medium Memory)."
        ),
        "Make /dev/shm writable for the job's user.",
    ),
    next_steps=("df -h /dev/shm; ls -ld /dev/shm  # inside the container",),
    matches=(
        (
            "node3:99:140 [1] misc/shmutils.cc:60 NCCL WARN Error while creating shared memory "
            "segment nccl-shm-recv-9d8c (size 9637888)"
        ),
        (
            "node3:99:140 [1] misc/shmutils.cc:114 NCCL WARN Error while creating shared "
            "memory segment /dev/shm/nccl-aB3dEf (size 4096), error: Permission denied (13)"
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
