"""Ranks wait for a lock on a file that a process outside the job holds.

A leftover of the last run, a download or a build of another job on the same host. The kernel's
table of locks names its process.
"""

from whyhang.analyzer.match import Holder, Kind, Signature, file_lock

SIGNATURE = Signature(
    id="file-lock-held-elsewhere",
    category="stale-lock-file",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {is} waiting for the lock on {file}, which {holder} holds{waiting}",
    when=file_lock(Holder.OUTSIDER),
    means=(
        "{who} {is} waiting for the lock on {file}. Its holder, {holder}, is no rank of this job "
        "and has not released it."
    ),
    confidence="certain",
    remedies=(
        "If the holder is a leftover of an earlier run, end it; the lock is released with it.",
        "Give each job a cache or build folder of its own.",
    ),
    next_steps=("grep -e '->' -B1 /proc/locks  # holder, then who waits",),
    explains=("stale-lock-file", "lock-deadlock", "missing-rank-in-collective"),
)
