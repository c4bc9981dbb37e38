"""What records show of the calls of a job: how far each rank came, and what became of the calls."""

from collections.abc import Iterable, Sequence

from whyhang.analyzer.collectives import call_findings
from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_graph import call_graph
from whyhang.analyzer.collectives.consistency import consistent_calls, in_motion
from whyhang.analyzer.collectives.groups import Disagreement, GroupCalls
from whyhang.analyzer.collectives.pending import IssuedCall, last_calls, pending_calls
from whyhang.analyzer.collectives.waits import Wait
from whyhang.analyzer.facts import Group, Record, Track


class RecordedCalls(Record):
    """What is known from records. ``findings`` has causes first, most affected ranks first.

    ``waits`` are edges for the wait graph, ``positions`` where each rank stands.
    """

    findings: tuple[CallFinding, ...]
    waits: tuple[Wait, ...]
    positions: dict[int, IssuedCall]
    groups: tuple[GroupCalls, ...]
    disagreements: tuple[Disagreement, ...]

    def of(self, *verdicts: Verdict) -> tuple[CallFinding, ...]:
        """Return the findings of these kinds that are causes."""
        return tuple(f for f in self.findings if f.verdict in verdicts and f.cause)


def recorded_calls(
    tracks: Iterable[Track],
    groups: Iterable[Group] = (),
    world_size: int | None = None,
    *,
    waits: Sequence[Wait] = (),
) -> RecordedCalls:
    """Merge all tracks (recorders, logs, counters, stacks) and find what became of the calls.

    Tracks without a rank are left out: whoever identifies the ranks fills ``track.who.rank`` in
    before. ``waits`` are more edges of the wait graph, read off stacks; members are ranks there.
    """
    job = consistent_calls(tracks, groups, world_size)
    pending, disagreements = pending_calls(job)
    positions = last_calls(job) | {rank: calls[0] for rank, calls in pending.items()}
    graph = call_graph(job, pending, positions, waits)
    moving = in_motion(job)
    return RecordedCalls(
        findings=(call_findings.in_motion(job),) if moving else call_findings.find(graph),
        waits=() if moving else graph.waits,
        positions=positions,
        groups=job.groups,
        disagreements=(*job.disagreements, *disagreements),
    )
