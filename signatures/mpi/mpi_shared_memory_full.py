"""MPI keeps shared memory in files in /tmp or /dev/shm, and there is no room.

A container's small /dev/shm, a /tmp that is full or on a network file system, left-overs of
earlier jobs. The process fails or ends with a bus error later.

All ranks of that host share the fault.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-shared-memory-full",
    category="shm-too-small",
    kind=Kind.CAUSE,
    title="There is no room for MPI's shared memory files",
    when=log(
        r"It appears as if there is not enough space for \S+",
        r"(?:create_mmap|shmem_mmap|opal_shmem_mmap).*(?:not enough space|No space left)",
        r"MPIDU_Init_shm_alloc.*unable to allocate shared memory",
        r"Unable to allocate shared memory for intra-node messaging",
    ),
    means=(
        "Processes of this host cannot exchange data through shared memory, because there is "
        "no room for it."
    ),
    confidence=0.9,
    remedies=(
        (
            "Give the container more shared memory (--shm-size, --ipc=host), free /tmp, remove "
            "/tmp/ompi.* and /dev/shm left-overs of dead jobs."
        ),
        "Or point TMPDIR (orte_tmpdir_base) to a local disk.",
    ),
    next_steps=("df -h /tmp /dev/shm  # on that host",),
    matches=(
        (
            "It appears as if there is not enough space for "
            "/tmp/ompi.n0042.1000/pid.1/0/shared_mem_pool.n0042 (the shared-memory backing"
        ),
        "Unable to allocate shared memory for intra-node messaging.",
        (
            "[n0042:20133] shmem_mmap: an error occurred while determining whether there is "
            "not enough space in /dev/shm"
        ),
        "MPIDU_Init_shm_alloc(187)......: unable to allocate shared memory",
    ),
    misses=("WARNING: Open MPI will create a shared memory backing file in a",),
    outranks=("launcher-exit-code",),
)
