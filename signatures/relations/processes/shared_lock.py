"""Ranks wait for a lock that processes share, and its holder waits for them.

A ``multiprocessing`` lock around work that holds a collective: the rank that got the lock waits
in the barrier for the others, and the others wait for the lock. Nothing on the machine tells who
holds such a lock; where all ranks but one want it, that one does.
"""

from whyhang.analyzer.match import Kind, Signature, wants_shared_lock

SIGNATURE = Signature(
    id="shared-lock",
    category="gil-or-lock-deadlock",
    kind=Kind.CAUSE,
    level="program",
    title="{says}",
    when=wants_shared_lock(),
    means=(
        "{says}. Unless a process outside the job has it, its holder is a rank, and every rank "
        "that does not want the lock waits for those that do."
    ),
    confidence="strong",
    remedies=(
        "Release the lock before the collective: no collective, barrier or send inside the lock.",
        "Let one rank do the guarded work and the others wait in a barrier, without the lock.",
    ),
    next_steps=("py-spy dump --pid {pid}  # is the call inside a with of the lock?",),
)
