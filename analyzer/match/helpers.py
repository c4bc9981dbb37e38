"""A matcher for the processes that a rank started: one that is stopped holds the rank up."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.match.late import late
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import busy_worker

_STOPPED = {"T", "t"}
_ON_A_PROCESS = (
    WaitKind.SUBPROCESS,
    WaitKind.DATALOADER,
    WaitKind.FUTURE,
    WaitKind.QUEUE,
    WaitKind.POLL,
)


class HelperStopped(Record):
    """A rank that others wait for waits itself for a process it started, which is stopped.

    A DataLoader's worker that is stopped inside the dataset is told of with the batch that it owes.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for each place at which such ranks stand."""
        hits = []
        for hit in late(*_ON_A_PROCESS, alone=True)(case):
            state = case.states[hit.members[0]]
            child = _stopped(case, state)
            if child is None:
                continue
            process = child.processes[-1]
            quote = f"pid {child.pid} State: {process.state}, {process.command}"
            said = Evidence(
                source=process.source.file,
                line=process.source.line,
                rank=case.member(state.member).rank,
                quote=quote,
            )
            fields = {
                **hit.fields,
                "child": str(child.pid),
                "runs": _short(process.command or "a process"),
            }
            hits.append(replace(hit, evidence=(said, *hit.evidence), fields=fields))
        return tuple(hits)


def helper_stopped() -> HelperStopped:
    """Ask for ranks held up by a process of theirs that is stopped; see ``HelperStopped``."""
    return HelperStopped()


def _stopped(case: Case, state: RankState) -> Child | None:
    worker = busy_worker(state)
    if worker is not None and worker[1].stopped:
        return None
    member = case.member(state.member)
    below = (*member.children, *member.helpers)
    return next((c for c in below if c.processes and c.processes[-1].state in _STOPPED), None)


def _short(command: str) -> str:
    """Give a command line without the folders in it, and not all of a long one."""
    short = " ".join(word.rpartition("/")[2] or word for word in command.split())
    return short if len(short) <= 60 else f"{short[:59]}…"
