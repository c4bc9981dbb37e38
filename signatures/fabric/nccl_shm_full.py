"""NCCL cannot allocate its shared memory segments.

Ranks of one host exchange data through files in /dev/shm. Docker gives 64 MiB by default; left-
overs of killed jobs (/dev/shm/nccl-*, torch_*) and DataLoader workers use the same space. In
Kubernetes it needs an emptyDir of medium Memory.

All ranks of the container may print it; the container is at fault, not one rank.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-shm-full",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="There is no room in shared memory (/dev/shm)",
    when=log(
        r"failed to extend /dev/shm/\S+ to \d+ bytes",
        r"[Ee]rror while creating shared memory segment \S+ \(size \d+\).*No space left",
        r"[Ee]rror: failed to create shared memory file \S+.*No space left",
        r"Call to posix_fallocate failed ?: No space left on device",
    ),
    means=(
        "There is no room in /dev/shm for NCCL's segments, so connections between ranks of "
        "this host cannot be set up."
    ),
    confidence=0.95,
    remedies=(
        (
            "Give the container more shared memory: --shm-size=16g or --ipc=host; in "
            "Kubernetes an emptyDir with medium: Memory at /dev/shm."
        ),
        "Remove left-overs of dead jobs: /dev/shm/nccl-* and /dev/shm/torch_*.",
        "NCCL_SHM_DISABLE=1 gets going, slower.",
    ),
    next_steps=(
        "Run again with NCCL_SHM_DISABLE=1: it works if this is it.",
        "df -h /dev/shm; ls -l /dev/shm  # inside the container",
    ),
    links=(
        "https://github.com/NVIDIA/nccl/issues/290",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
            "/dev/shm/nccl-6rMjZu to 9637892 bytes"
        ),
        (
            "node3:99:140 [1] misc/shmutils.cc:87 NCCL WARN Error: failed to extend "
            "/dev/shm/nccl-aB3dEf to 33030532 bytes, error: No space left on device (28)"
        ),
        (
            "node3:99:140 [1] misc/shmutils.cc:114 NCCL WARN Error while creating shared "
            "memory segment /dev/shm/nccl-aB3dEf (size 33030528), error: No space left on "
            "device (28)"
        ),
        (
            "node3:99:140 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No "
            "space left on device"
        ),
        (
            "node3:99:140 [1] os/linux.cc:410 NCCL WARN Error: failed to create shared memory "
            "file /dev/shm/nccl-aB3dEf, error No space left on device (28)"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/shmutils.cc:114 NCCL WARN Error while attaching to shared "
            "memory segment /dev/shm/nccl-aB3dEf (size 33030528), error: No such file or "
            "directory (2)"
        ),
    ),
    outranks=(
        "nccl-proxy-operation-failed",
        "nccl-shm-segment-failed",
        "launcher-exit-code",
    ),
)
