"""A shared memory file was removed before NCCL removed it.

At tear-down both sides try to unlink or unmap the same segment; the second finds nothing.

It has no effect on the job.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-shm-unlink",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL's shared memory was already gone",
    when=log(
        r"unlink shared memory \S+ failed",
        r"munmap of shared memory \S+",
    ),
    means="Only the tidying up came twice.",
    confidence=0.9,
    matches=(
        (
            "node3:99:140 [1] misc/shmutils.cc:180 NCCL WARN unlink shared memory "
            "/dev/shm/nccl-aB3dEf failed, error: No such file or directory"
        ),
        (
            "node3:99:140 [1] misc/shmutils.cc:170 NCCL WARN munmap of shared memory 0x7f00 "
            "size 4096 failed, error: Invalid argument"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/shmutils.cc:114 NCCL WARN Error while attaching to shared "
            "memory segment /dev/shm/nccl-aB3dEf (size 33030528), error: No such file or "
            "directory (2)"
        ),
    ),
)
