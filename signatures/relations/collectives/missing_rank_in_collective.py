"""One rank is elsewhere in the program while the others wait for it in a collective.

Usually a branch on rank-local data (an empty batch, a NaN check, ``if rank == 0``) around a
collective, or one rank that does something long before it. The waiting ranks are healthy;
look at the one that waits for nobody. Where its own stack names a cause that has a signature
of its own (a blocked DataLoader, a lock, a stopped process), that signature speaks instead.
"""

from whyhang.analyzer.match import (
    KNOWN_LOCAL_CAUSES,
    RESTING,
    Kind,
    Signature,
    Status,
    Verdict,
    WaitKind,
    either,
    late,
)

SIGNATURE = Signature(
    id="missing-rank-in-collective",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {has} not reached {call}: {does}{at}",
    when=either(
        late(
            besides=(*KNOWN_LOCAL_CAUSES, WaitKind.WORK),
            states=(Status.BLOCKED,),
            not_while_in=(WaitKind.INIT, WaitKind.STORE),
        ),
        late(
            WaitKind.WORK,
            besides=KNOWN_LOCAL_CAUSES,
            not_while_in=(WaitKind.INIT, WaitKind.STORE),
            moves=RESTING,
            recorded=(Verdict.NEVER_JOINED,),
        ),
    ),
    means=(
        "{who} waits for no other rank, while {others} {wait} in {call}. "
        "What {who} does there is the cause; the waiting ranks are healthy."
    ),
    confidence="strong",
    remedies=(
        "Look at {where}: why {is} {who} there and not in {call}?",
        (
            "Call the collective on every rank of the group or on none: no branch on rank-local "
            "data (empty batch, NaN, rank 0) may stand around it."
        ),
    ),
    next_steps=(
        "py-spy dump --pid {pid}  # of {who}, twice: does the stack change?",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names the collective that differs.",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html",),
)
