"""What records show of the calls of a job: what became of each, and through whom."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph, call_graph, merged
from whyhang.analyzer.collectives.consistency import consistent_calls, in_motion
from whyhang.analyzer.collectives.groups import Disagreement, GroupCalls, JobCalls
from whyhang.analyzer.collectives.mismatch_findings import mismatches, with_skipped
from whyhang.analyzer.collectives.p2p_findings import as_one_call, unclosed, unpaired
from whyhang.analyzer.collectives.pending import IssuedCall, issued, last_calls, pending_calls
from whyhang.analyzer.collectives.shared_calls import Key, SharedCall
from whyhang.analyzer.collectives.stuck_findings import deadlock, stuck
from whyhang.analyzer.collectives.waits import Cycle, Root, Wait
from whyhang.analyzer.facts import Group, Record, Track, ranks_in_words, replace

MAX_QUOTED = 3
MAX_PARTS = 4  # of a finding that are said one by one


class RecordedCalls(Record):
    """What is known from records. ``findings`` has causes first, most affected ranks first.

    ``waits`` are edges for the wait graph, ``cycles`` the ranks that wait only for each other,
    ``positions`` where each rank stands.
    """

    findings: tuple[CallFinding, ...]
    waits: tuple[Wait, ...]
    cycles: tuple[Cycle, ...]
    positions: dict[int, IssuedCall]
    groups: tuple[GroupCalls, ...]
    disagreements: tuple[Disagreement, ...]

    def of(self, *verdicts: Verdict) -> tuple[CallFinding, ...]:
        """Return the findings of these kinds that are causes."""
        return tuple(f for f in self.findings if f.verdict in verdicts and f.cause)


def recorded_calls(
    tracks: Iterable[Track], groups: Iterable[Group] = (), world_size: int | None = None
) -> RecordedCalls:
    """Merge all tracks (recorders, logs, counters, stacks) and find what became of the calls.

    Tracks without a rank are left out: whoever identifies the ranks fills ``track.who.rank`` in
    before.
    """
    job = consistent_calls(tracks, groups, world_size)
    pending, disagreements = pending_calls(job)
    positions = last_calls(job) | {rank: calls[0] for rank, calls in pending.items()}
    graph = call_graph(job, pending, positions)
    moving = in_motion(job)
    return RecordedCalls(
        findings=(_in_motion(job),) if moving else _findings(graph),
        waits=() if moving else graph.waits,
        cycles=() if moving else graph.cycles,
        positions=positions,
        groups=job.groups,
        disagreements=(*job.disagreements, *disagreements),
    )


def _findings(graph: CallGraph) -> tuple[CallFinding, ...]:
    """Make all findings, causes first, those that hold up most ranks before others."""
    if not graph.pending:
        return _all_completed(graph)
    findings = list(mismatches(graph))
    explained = {rank for finding in findings for rank in finding.culprits}
    differing = {key for key, each in graph.collectives.items() if each.mismatch is not None}
    cycles = []
    for cycle in graph.cycles:
        calls = (graph.collective_of(link.wait.waiter) for link in cycle.chain)
        if not (cycle.members & explained or any(c and c.key in differing for c in calls)):
            cycles.append(cycle)
    for finding in (*unpaired(graph, cycles, explained), *unclosed(graph)):
        findings.append(finding)
        explained.update(finding.culprits, finding.waiting)
    findings += [deadlock(graph, c) for c in cycles if c.chain and not c.members & explained]
    findings += _at_roots(graph, explained, differing)
    if any(finding.culprits for finding in findings):
        # Whoever left no record may well wait for those who are known to hold others up.
        findings = [replace(f, cause=f.verdict is not Verdict.WAITS_FOR_ABSENT) for f in findings]
    return tuple(sorted(findings, key=lambda f: (not f.cause, not f.culprits, -len(f.affected))))


def _in_motion(job: JobCalls) -> CallFinding:
    quotes = [
        issued(group, own, own.calls[max(own.calls)])
        for group in job.groups
        for rank, own in group.progress.items()
        if own.source is not None and own.calls
    ]
    return CallFinding(
        verdict=Verdict.IN_MOTION,
        says=f"The dumps of {ranks_in_words(job.present)} were written while the ranks still went "
        "on: the newest call of each is no older than the pauses it makes anyway",
        quotes=tuple(quotes[:MAX_QUOTED]),
    )


def _all_completed(graph: CallGraph) -> tuple[CallFinding, ...]:
    known = [p for group in graph.job.groups for p in group.progress.values() if p.known]
    # The open call of a rank that left no record may be the one that matters, or an unrecorded one.
    unseen = graph.job.older or any(g.absent for g in graph.job.groups if not g.inferred)
    no_end = all(progress.completed is None for progress in known)
    if unseen or no_end or any(progress.unrecorded for progress in known):
        return ()
    ranks = sorted(graph.job.present)
    finding = CallFinding(
        verdict=Verdict.ALL_COMPLETED,
        says=f"Every recorded call of {ranks_in_words(ranks)} is completed",
        quotes=graph.quotes(ranks[:MAX_QUOTED]),
    )
    return (finding,)


def _at_roots(
    graph: CallGraph, explained: Collection[int], differing: Collection[Key]
) -> Iterable[CallFinding]:
    lagging: list[Root] = []
    inside: dict[Key, list[Root]] = defaultdict(list)
    posted: list[Root] = []
    for root in graph.roots:
        if root.member in explained:
            continue
        collective = graph.collective_of(root.member)
        if collective is None:
            p2p = any(each.call.p2p for each in graph.pending.get(root.member, ()))
            (posted if p2p else lagging).append(root)
        elif collective.stalled or root.member in collective.missing:
            lagging.append(root)
        elif collective.key not in differing:
            inside[collective.key].append(root)
    late = _lagging(graph, [root for root in lagging if root.direct])
    if late is not None:
        yield late
    for key, roots in inside.items():
        yield stuck(graph, graph.collectives[key], roots)
    members = {root.member for root in posted}
    call = as_one_call(sorted((p for p in graph.p2p if p.rank in members), key=lambda p: p.rank))
    if call is not None:
        yield stuck(graph, call, posted)


def _lagging(graph: CallGraph, roots: Sequence[Root]) -> CallFinding | None:
    """Make one finding of all ranks that others wait for and that wait for no rank."""
    awaited: dict[int, SharedCall] = {}
    members = {root.member for root in roots}
    for collective in sorted(graph.collectives.values(), key=lambda each: len(each.inside)):
        awaited.update(dict.fromkeys(members & collective.missing, collective))
    by_call: dict[Key, list[Root]] = defaultdict(list)
    for root in roots:
        awaits = awaited.get(root.member) or graph.collective_of(root.member)
        by_call[awaits.key if awaits is not None else (-1, root.member)].append(root)
    parts = [
        finding
        for key, of_call in by_call.items()
        if (finding := _lagging_part(graph, graph.collectives.get(key), of_call)) is not None
    ]
    if not parts:
        return None
    parts = _with_unrecorded(graph, parts)
    parts.sort(key=lambda f: (f.verdict is Verdict.STALLED, -len(f.waiting)))
    if len(parts) == 1:
        return parts[0]
    more = f". And {len(parts) - MAX_PARTS} more like these" if len(parts) > MAX_PARTS else ""
    return replace(
        parts[0],
        says=". ".join(part.says for part in parts[:MAX_PARTS]) + more,
        culprits=merged(part.culprits for part in parts),
        affected=merged(part.affected for part in parts),
        quotes=tuple({quote.rank: quote for part in parts for quote in part.quotes}.values()),
        parts=tuple(parts),
    )


def _with_unrecorded(graph: CallGraph, parts: list[CallFinding]) -> list[CallFinding]:
    """Take blame back from lagging ranks that may wait for each other in unrecorded calls."""
    culprits = {rank for finding in parts for rank in finding.culprits}
    unrecorded = {
        rank
        for group in graph.job.groups
        for rank, progress in group.progress.items()
        if rank in culprits and progress.unrecorded and rank not in graph.job.stacks
    }
    if not unrecorded:
        return parts
    if len(culprits) == 1 and not any(group.absent for group in graph.job.groups):
        return [replace(finding, unrecorded=True) for finding in parts]
    may_wait = (
        "This job also makes calls that its recorders leave out (over gloo: sends and "
        f"receives), so which of {ranks_in_words(culprits)} waits for another is not known"
    )
    return [
        replace(
            finding,
            verdict=Verdict.LATE_OR_UNRECORDED,
            says=f"{finding.says}. {may_wait}",
            culprits=(),
            affected=merged((finding.affected, finding.culprits)),
        )
        if unrecorded.issuperset(finding.culprits)
        else finding
        for finding in parts
    ]


def _lagging_part(
    graph: CallGraph, collective: SharedCall | None, roots: Sequence[Root]
) -> CallFinding | None:
    """Return the finding on the ranks that hold up one call, or answer no send or receive."""
    culprits = tuple(sorted(root.member for root in roots))
    call = collective or as_one_call(p for p in graph.p2p if p.peer in culprits and not p.matched)
    if call is None:
        return None
    last = graph.positions.get(culprits[0])
    waiting = tuple(rank for rank in call.ranks if collective is None or rank not in culprits)
    completed = tuple(sorted(call.completed))
    stalled = collective is not None and not call.missing.intersection(culprits)
    finding = CallFinding(
        verdict=Verdict.STALLED if stalled else Verdict.NEVER_JOINED,
        says=call_words.says(
            "{who} joined {call} and {has} not finished it, though {others} has: "
            "its device or its process stopped in the middle",
            culprits,
            call.call,
            completed,
        )
        if stalled
        else call_words.late(culprits, call.call, waiting, last),
        call=call.call,
        culprits=culprits,
        waiting=completed if stalled else waiting,
        affected=merged(root.blocks for root in roots),
        absent=tuple(sorted(call.unknown)),
        missed=last.ref if last is not None else None,
        site=last.site if last is not None else None,
        quotes=graph.quotes((*culprits[:3], *waiting[:2])),
        inferred=call.inferred,
    )
    if stalled or not waiting or collective is None:
        return finding
    return with_skipped(finding, collective, waiting[0])
