"""The launcher is stopped by a signal or a debugger, and the job needs it.

Ctrl-Z in the terminal that started torchrun, a scheduler that suspends, a debugger. Ranks that
have ended stay zombies, and nobody restarts or ends the rest. The store of a torchrun job lives
in the agent, so that init_process_group and new_group get no answer either.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, Status, WaitKind, cite

_ASKS_STORE = {WaitKind.INIT, WaitKind.STORE, WaitKind.GROUP}
"""What needs the store, which lives in the agent of torchrun."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for a launcher that is stopped and that the job needs; no rank is to blame.

    All ranks have ended and nobody collects them, or some ask the store, which torchrun's agent
    keeps and which does not answer. Ranks in a collective need no launcher.
    """
    seen = ((one.pid, one.last) for one in case.job.launchers)
    stopped = [(pid, last) for pid, last in seen if last is not None and last.stopped]
    if not stopped or case.graph.progress:
        return
    ended = tuple(s.member for s in case.states if s.status is Status.GONE)
    kinds = {meeting.kind for meeting in case.graph.operations}
    kinds |= {state.kind for state in case.states if state.kind is not None}
    if not kinds & _ASKS_STORE and len(ended) < len(case.states):
        return  # who died alone is the better answer
    have, are = ("have", "are") if len(ended) > 1 else ("has", "is")
    yield Hit(
        affected=ended or queries.waiters_for(case),
        evidence=tuple(
            cite(process.source, f"pid {pid} State: {process.state}, {process.command}")
            for pid, process in stopped
        ),
        names_culprit=False,
        fields={
            "who": f"The launcher (pid {stopped[0][0]})",
            "pid": str(stopped[0][0]),
            "waiting": f"; {case.names(ended)} {have} ended and {are} not collected"
            if ended
            else "; the store in it does not answer",
        },
    )


SIGNATURE = Signature(
    id="launcher-stopped",
    category="rank-stopped",
    level="kill",
    title="{who} is stopped by a signal{waiting}",
    when=when,
    means=(
        "{who} does not run until it is let go on{waiting}. It is the launcher that collects ranks "
        "which have ended, reports how, and keeps the store where ranks meet."
    ),
    confidence="certain",
    remedies=(
        "Let it go on: kill -CONT {pid}, or fg in the terminal where it was stopped.",
        "Find out who stopped it: Ctrl-Z, a suspended allocation, a debugger.",
    ),
    next_steps=("grep -E 'State|TracerPid' /proc/{pid}/status  # T: stopped, t: traced",),
)
