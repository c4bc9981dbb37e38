"""The launcher is stopped by a signal or a debugger, and the job needs it.

Ctrl-Z in the terminal that started torchrun, a scheduler that suspends, a debugger. Ranks that
have ended stay zombies, and nobody restarts or ends the rest. The store of a torchrun job lives
in the agent, so that init_process_group and new_group get no answer either.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.queries import Case, Hit, Signature, Status, WaitKind
from whyhang.analyzer.report import Evidence

_ASKS_STORE = {WaitKind.INIT, WaitKind.STORE, WaitKind.GROUP}
"""What needs the store, which lives in the agent of torchrun."""


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for a launcher that is stopped and that the job needs; no rank is to blame.

    All ranks have ended and nobody collects them, or some ask the store, which torchrun's agent
    keeps and which does not answer. Ranks in a collective need no launcher.
    """
    alive = [one for one in case.job.launchers if one.processes]
    stopped = [one for one in alive if one.processes[-1].stopped]
    if not stopped or case.graph.progress:
        return
    ended = tuple(s.member for s in case.states if s.status is Status.GONE)
    waiting = {meeting.kind for meeting in case.graph.operations}
    asks = bool(waiting & _ASKS_STORE) or any(
        s.place is not None and s.place.kind in _ASKS_STORE for s in case.states
    )
    if not asks and len(ended) < len(case.states):
        return  # who died alone is the better answer
    have, are = ("have", "are") if len(ended) > 1 else ("has", "is")
    affected = ended or queries.waiters_for(case)
    fields = {
        "who": f"The launcher (pid {stopped[0].pid})",
        "pid": str(stopped[0].pid),
        "waiting": f"; {case.names(ended)} {have} ended and {are} not collected"
        if ended
        else "; the store in it does not answer",
    }
    evidence = tuple(_cite_state(one) for one in stopped)
    yield Hit(affected=affected, evidence=evidence, names_culprit=False, fields=fields)


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


def _cite_state(launcher: Child) -> Evidence:
    process = launcher.processes[-1]
    return queries.cite(
        process.source, f"pid {launcher.pid} State: {process.state}, {process.command}"
    )
