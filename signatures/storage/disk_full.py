"""A rank cannot write its checkpoint or cache because the disk or quota is full.

Checkpoints, caches under the home directory, /tmp, compile caches and core dumps fill it.
Sometimes the message only says that the archive writer stopped at an unexpected position.
[Errno 28] from a semaphore or a torch_ file means /dev/shm.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="disk-full",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="{who} could not write: no space left",
    when=log(
        r"\[Errno 28\] No space left on device",
        r"\[Errno 122\] Disk quota exceeded",
        r"PytorchStreamWriter failed writing file",
        r"inline_container\.cc:\d+\] \. unexpected pos \d+ vs \d+",
        r"safetensors_rust\.SafetensorError: .*No space left on device",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A write failed because the file system, or this user's quota, is full. The rank that "
        "writes (often only rank 0) fails, and the others wait at the barrier after the "
        "checkpoint."
    ),
    confidence=0.85,
    remedies=(
        (
            "Free space or raise the quota; keep fewer checkpoints; move caches (HF_HOME, "
            "TORCHINDUCTOR_CACHE_DIR, TMPDIR)."
        ),
        (
            "Write to a new name and rename it at the end, so that a failed save does not "
            "destroy the last good one."
        ),
    ),
    next_steps=("df -h PATH; df -i PATH; quota -s  # on Lustre: lfs quota -u $USER PATH",),
    matches=(
        "OSError: [Errno 28] No space left on device",
        "OSError: [Errno 122] Disk quota exceeded: '/home/user/.cache'",
        "RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed",
        (
            "RuntimeError: [enforce fail at inline_container.cc:424] . unexpected pos 4194304 vs "
            "4194200"
        ),
        (
            "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, "
            'kind: StorageFull, message: "No space left on device" })'
        ),
    ),
    misses=(
        "RuntimeError: unable to write to file </torch_4711_1298>: No space left on device (28)",
        "kernel: EXT4-fs (sda1): Delayed block allocation failed",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
