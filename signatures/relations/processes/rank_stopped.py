"""A rank was stopped by a signal, a debugger or a prompt, and the job waits for it.

SIGSTOP (a scheduler that suspends, Ctrl-Z, a debugger that attached), a forgotten
breakpoint() or pdb.set_trace(), or input() on a terminal nobody looks at. The kernel's
process state says the first kind; the frames of pdb or the terminal read say the others.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status, WaitKind


def when(case: Case) -> Iterable[Hit]:
    return queries.merged(
        queries.lagging(case, states=(Status.STOPPED,), alone=True),
        queries.lagging(case, WaitKind.INPUT, WaitKind.DEBUGGER, alone=True),
    )


SIGNATURE = Signature(
    id="rank-stopped",
    category="rank-stopped",
    level="kill",
    title="{who} {is} {does}{at}{waiting}",
    when=when,
    means=(
        "{who} does not run until a person or a signal lets it go on ({does}); "
        "the others are healthy and wait."
    ),
    confidence="certain",
    remedies=(
        (
            "Let it go on: kill -CONT {pid} for a stopped process; otherwise leave the debugger or "
            "answer the prompt."
        ),
        "Take breakpoint(), pdb.set_trace() and input() out of code that runs on many ranks.",
    ),
    next_steps=("grep -E 'State|TracerPid' /proc/{pid}/status  # T: stopped, t: traced",),
)
