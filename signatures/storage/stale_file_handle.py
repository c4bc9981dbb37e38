"""A network file system says that a file handle is stale.

The export was moved or re-created, the file was removed or replaced by another node, or the
server restarted. One node may see it while others do not.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="stale-file-handle",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="{who} used a file that is gone on the server (stale handle)",
    when=log(
        r"\[Errno 116\] Stale file handle",
        r"Stale (?:NFS )?file handle",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The file or its mount was replaced on the server while it was in use. Reads fail, so "
        "this rank stops and the others wait."
    ),
    confidence=0.88,
    remedies=(
        "Do not replace files that a running job uses; write under a new name.",
        "Remount on that host; check the server.",
    ),
    next_steps=("stat PATH; mount | grep nfs  # on that host",),
    matches=(
        "OSError: [Errno 116] Stale file handle: '/data/shard-000.tar'",
        "cat: /data/x: Stale file handle",
        "ls: cannot access '/data': Stale NFS file handle",
    ),
    misses=("Using stale cache entry",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
