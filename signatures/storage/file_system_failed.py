"""A file system answers with an error of its own: I/O error, read-only, disconnected.

'Cannot send after transport endpoint shutdown' is Lustre that has evicted this client.
'Transport endpoint is not connected' is a FUSE mount whose process died. 'Read-only file
system' is a disk that the kernel gave up on, or a container without a writable mount. One host
only: look at that host.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="file-system-failed",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="The file system failed under {who} ({how})",
    when=log(
        (
            r"\[Errno (?:5|30|107|108|121|112)\] (?P<how>Input/output error|Read-only file "
            r"system|Transport endpoint is not connected|Cannot send after transport endpoint "
            r"shutdown|Remote I/O error|Host is down)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "Reads or writes fail with '{how}'. The rank stops or retries, and the others wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Check mounts and kernel log of that host; remount, or take it out.",
        "Read training data from local copies where the shared file system is not dependable.",
    ),
    next_steps=("dmesg -T | tail -50; df PATH; findmnt -T PATH  # on that host",),
    matches=(
        "OSError: [Errno 5] Input/output error: '/lustre/data/shard-17.bin'",
        "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/ckpt'",
        "OSError: [Errno 107] Transport endpoint is not connected: '/mnt/s3'",
        "OSError: [Errno 30] Read-only file system: '/out'",
        "OSError: [Errno 121] Remote I/O error",
    ),
    misses=(
        "OSError: [Errno 22] Invalid argument",
        "PermissionError: [Errno 13] Permission denied: '/out'",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
