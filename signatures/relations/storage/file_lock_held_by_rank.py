"""A rank holds the lock on a file while it waits for ranks that want the same lock.

``with FileLock(...): ...; dist.barrier()`` on one rank and the same lock on the others: the
holder waits in the barrier for ranks that cannot come before it lets go. The kernel's table of
locks tells who holds it.
"""

from whyhang.analyzer.match import Holder, Kind, Signature, file_lock

SIGNATURE = Signature(
    id="file-lock-held-by-rank",
    category="gil-or-lock-deadlock",
    kind=Kind.CAUSE,
    level="program",
    title="{who} {is} {does}{at} and {has} the lock on {file} that {wanting} wait for",
    when=file_lock(Holder.RANK),
    means=(
        "{wanting} cannot go on before {who} releases the lock on {file}, and {who} waits for "
        "them{at}: neither ever ends."
    ),
    confidence="certain",
    remedies=(
        "Release the lock before the collective: no collective, barrier or send inside the lock.",
        "Let one rank do the guarded work and the others wait in a barrier, without the lock.",
    ),
    next_steps=("grep -e '->' -B1 /proc/locks  # holder, then who waits",),
)
