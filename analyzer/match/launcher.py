"""A matcher for the launcher itself: it can stop like any other process."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind

_STOPPED = {"T", "t"}
_ASKS_STORE = {WaitKind.INIT, WaitKind.STORE, WaitKind.GROUP}
"""What needs the store, which lives in the agent of torchrun."""


class LauncherStopped(Record):
    """The launcher does not run, and something waits for it.

    All ranks have ended and nobody collects them, or some ask the store, which torchrun's agent
    keeps and which does not answer. Ranks in a collective need no launcher.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that names no rank: none is to blame."""
        stopped = [one for one in case.job.launchers if _state(one) in _STOPPED]
        if not stopped or case.graph.progress:
            return ()
        ended = tuple(s.member for s in case.states if s.status is Status.GONE)
        waiting = {meeting.kind for meeting in case.graph.operations}
        asks = bool(waiting & _ASKS_STORE) or any(
            s.place is not None and s.place.kind in _ASKS_STORE for s in case.states
        )
        if not asks and len(ended) < len(case.states):
            return ()  # who died alone is the better answer
        have, are = ("have", "are") if len(ended) > 1 else ("has", "is")
        affected = ended or waiters_for(case)
        fields = {
            "who": f"The launcher (pid {stopped[0].pid})",
            "pid": str(stopped[0].pid),
            "waiting": f"; {case.names(ended)} {have} ended and {are} not collected"
            if ended
            else "; the store in it does not answer",
        }
        evidence = tuple(_quote(one) for one in stopped)
        return (Hit(affected=affected, evidence=evidence, names_culprit=False, fields=fields),)


def launcher_stopped() -> LauncherStopped:
    """Ask whether the launcher is stopped while the job needs it."""
    return LauncherStopped()


def _state(launcher: Child) -> str | None:
    return launcher.processes[-1].state if launcher.processes else None


def _quote(launcher: Child) -> Evidence:
    process = launcher.processes[-1]
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=None,
        quote=f"pid {launcher.pid} State: {process.state}, {process.command}",
    )
