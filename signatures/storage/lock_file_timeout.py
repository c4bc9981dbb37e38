"""A file lock could not be had in time.

Caches (datasets, hub, compiled extensions) are guarded by lock files. A holder that hangs, a
holder on another node, or a file left by a killed process (with the soft lock used where flock
does not work) keeps everyone out.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="lock-file-timeout",
    category="stale-lock-file",
    kind=Kind.CAUSE,
    title="{who} could not get the lock file {path}",
    when=log(
        r"\bTimeout: The file lock '(?P<path>[^']+)' could not be acquired",
        blames=Blames.SPEAKER,
    ),
    means=(
        "Another process holds the lock, or a process that died left it behind on a file system "
        "without working locks. This rank gave up; others may still wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Find the holder (fuser PATH, lsof PATH); if nobody holds it, remove the file.",
        "Put caches on a file system with working locks, or one per node.",
    ),
    next_steps=("fuser -v {path}; ls -l {path}",),
    matches=(
        "filelock._error.Timeout: The file lock '/data/cache/model.lock' could not be acquired.",
        "Timeout: The file lock '/home/u/.cache/x.lock' could not be acquired.",
    ),
    misses=("DEBUG filelock: Attempting to acquire lock 140 on /data/cache/model.lock",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
