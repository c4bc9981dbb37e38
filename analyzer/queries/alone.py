"""One rank alone in a recorded call, while others wait in another operation without it."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import CallFinding, Verdict
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import WaitKind


def others_elsewhere(case: Case, finding: CallFinding) -> tuple[int, ...]:
    """Return the members that wait elsewhere, where one rank alone is in a call of all.

    Those that have not joined it, by their counters alone, may stand where these are: of another
    backend's operations their counters tell nothing. So the one is odd, and they are not missing.
    Nobody, where a stack or an end of its own shows one of them at something else.
    """
    if finding.verdict is not Verdict.NEVER_JOINED or len(finding.waiting) != 1:
        return ()
    by_rank = case.job.by_rank
    absent = [case.states[by_rank[rank]] for rank in finding.culprits if rank in by_rank]
    if any(state.status is not Status.UNSEEN for state in absent):
        return ()
    alone = by_rank.get(finding.waiting[0])
    elsewhere = {
        member
        for operation in case.graph.operations
        if operation.kind is WaitKind.COLLECTIVE and alone not in operation.members
        for member in operation.members
    }
    return tuple(sorted(elsewhere)) if len(elsewhere) > 1 else ()
