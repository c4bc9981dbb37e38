"""Findings about ranks that wait for each other, or for nothing that any rank could do."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph, merged
from whyhang.analyzer.collectives.mismatch import Side
from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.collectives.routine import departures
from whyhang.analyzer.collectives.shared_calls import SharedCall
from whyhang.analyzer.collectives.waits import Cycle, Link, Root
from whyhang.analyzer.facts import Call, grouped, replace
from whyhang.analyzer.facts.calls import ROOTED


def stuck(graph: CallGraph, call: SharedCall, roots: Sequence[Root]) -> CallFinding:
    """Return the finding on a call that all known members have joined, and not all completed."""
    joined, completed = call.joined, tuple(sorted(call.completed))
    text = "{who} have all joined {call} and none comes back"
    if call.call.p2p:
        text = "{who} stands in {call}, the peer answers, and nothing comes of it"
    finding = CallFinding(
        verdict=Verdict.ALL_ARRIVED,
        says=call_words.says(text, joined, call.call),
        call=call.call,
        waiting=joined,
        affected=merged((joined, *(root.blocks for root in roots))),
        absent=tuple(sorted(call.unknown)),
        site=call.site,
        quotes=graph.quotes(joined[:3]),
        inferred=call.inferred,
    )
    if completed and not call.unknown:
        quotes = graph.quotes((*joined[:2], *completed[:2]))
        return _partly_completed(graph, call, replace(finding, quotes=quotes))
    late = late_arrivals(call.inside) if not call.call.p2p else {}
    if late:
        return _came_late(graph, call, late, finding)
    alone = call.group is not None and call.inferred and len(call.group.members) < 2
    if not call.unknown and not alone:
        return finding
    return replace(
        finding,
        verdict=Verdict.WAITS_FOR_ABSENT,
        says=call_words.waits_for_absent(joined, call.call, finding.absent, graph.job.older),
    )


def _came_late(
    graph: CallGraph, call: SharedCall, late: Mapping[int, float], finding: CallFinding
) -> CallFinding:
    """Complete the finding on a call to which ranks came when the others had given it up."""
    culprits = tuple(sorted(late))
    waiting = tuple(rank for rank in call.ranks if rank not in late)
    return replace(
        finding,
        verdict=Verdict.CAME_LATE,
        says=call_words.says(
            f"{{who}} came to {{call}} {min(late.values()):,.0f} s later than {{others}}, "
            "which had given up by then",
            culprits,
            call.call,
            waiting,
        ),
        culprits=culprits,
        waiting=waiting,
        affected=graph.reaching(call.ranks, culprits),
        site=next((each.site for each in call.inside if each.rank in late), None),
        quotes=graph.quotes((*waiting[:2], *culprits[:3])),
    )


def _partly_completed(graph: CallGraph, call: SharedCall, finding: CallFinding) -> CallFinding:
    """Complete the finding on a call that others have completed, where that blames nobody.

    Others may complete a call with a root early. Any other call takes everyone's part: where as
    many have left it as are in it, each side is in a call of its own, and they do not match.
    """
    completed = sorted(call.completed)
    text = "{who} is still in {call}, which {others} has finished"
    finding = replace(
        finding,
        verdict=Verdict.PARTLY_COMPLETED,
        says=call_words.says(text, call.joined, call.call, completed),
    )
    positions = (graph.positions[rank] for rank in completed if rank in graph.positions)
    own = grouped((p for p in positions if p.inside), lambda position: position.ref)
    if not call.call.op or call.call.op in ROOTED or not own or call.recorded:
        return finding
    behind = Side(says=f"in {call.call}", ranks=call.joined, site=call.site)
    ahead = (Side(says=f"in {ref}", ranks=tuple(p.rank for p in at)) for ref, at in own.items())
    everyone = merged((call.joined, completed))
    return replace(
        finding,
        verdict=Verdict.DIVERGED,
        waiting=everyone,
        affected=everyone,
        sides=(behind, *ahead),
    )


def deadlock(graph: CallGraph, cycle: Cycle) -> CallFinding:
    """Return the finding on ranks that wait only for each other, in calls of several groups."""
    links = cycle.chain
    caught = [link.wait.waiter for link in links]
    culprits = _fewer_by_group(graph, cycle)
    diverged = () if culprits else departures(graph.job, caught)
    culprits = culprits or tuple(each.rank for each in diverged)
    odd = next((link for link in links if link.wait.waiter in culprits), links[0])
    return CallFinding(
        verdict=Verdict.CROSS_GROUP,
        says=call_words.with_divergences(_circle_in_words(links), diverged),
        call=links[0].wait.call,
        culprits=culprits,
        waiting=tuple(sorted(cycle.members.difference(culprits))),
        affected=tuple(sorted((cycle.members | cycle.blocks).difference(culprits))),
        sides=tuple(
            Side(says=f"in {link.wait.call}", ranks=(link.wait.waiter,), site=link.wait.site)
            for link in links
        ),
        site=diverged[0].own.site if diverged else odd.wait.site,
        quotes=graph.quotes(caught),
    )


def _circle_in_words(links: Sequence[Link]) -> str:
    """Say who waits in what for whom, round a circle of two ranks or more."""
    waits = [
        f"waits in {link.wait.call}{call_words.at(link.wait.site)} for rank {link.next}"
        for link in links
    ]
    first, *others = (link.wait.waiter for link in links)
    if len(others) == 1:
        return f"Rank {first} {waits[0]}, which {waits[1]}"
    steps = (f"rank {rank} {wait}" for rank, wait in zip((first, *others), waits, strict=True))
    return f"The ranks wait for each other in a circle: {'; '.join(steps)}"


def _fewer_by_group(graph: CallGraph, cycle: Cycle) -> tuple[int, ...]:
    """Return the ranks that entered two groups in the rarer order, among those who are in both.

    Where sends or a third group are part of the cycle, some only wait as a result, and to
    count them proves nothing.
    """
    calls = [link.wait.call for link in cycle.chain]
    entered_groups = {call.group for call in calls if call is not None and not call.p2p}
    if any(call is None or call.p2p for call in calls) or len(entered_groups) != 2:
        return ()
    groups = graph.job.groups
    first = {
        rank: pending[0].group.index
        for rank, pending in graph.pending.items()
        if rank in cycle.members and pending[0].group is not None
    }
    entered: dict[tuple[int, int], set[int]] = defaultdict(set)  # first group, other group
    for other in set(first.values()):
        for rank in groups[other].members:
            if first.get(rank, other) != other:
                entered[first[rank], other].add(rank)
    culprits: set[int] = set()
    for (one, other), ranks in entered.items():
        opposite = entered.get((other, one), ())
        absent = groups[one].absent & groups[other].absent
        silent = max(groups[one].silent, groups[other].silent)
        if opposite and len(ranks) + len(absent) + silent < len(opposite):
            culprits |= ranks
    return tuple(sorted(culprits))


WELL = 5.0  # seconds; clocks of hosts differ by less
ROUNDING = 1.0  # seconds to which logs tell times
MANY = 5  # times as many ranks must be there as are late, where their hosts are not known
ZONE = 1800.0
"""Clocks that differ by a multiple of these seconds are set to other zones."""


def late_arrivals(inside: Iterable[IssuedCall]) -> dict[int, float]:
    """Return by how many seconds ranks came later than the others, who had given up by then."""
    calls, tracks = {}, []
    for each in inside:
        if each.call.created_at is not None and each.call.given_up_at is not None:
            calls[each.rank] = each.call
            tracks.append(each.group.progress[each.rank].tracks if each.group is not None else ())
    on_one_clock = all(any(track.one_clock for track in own) for own in tracks)
    hosts = {next((track.who.host for track in own if track.who.host), None) for own in tracks}
    late = _late_among(calls)
    few = len(late) == 1 or len(late) * MANY <= len(calls)
    zones = any(abs(by - ZONE * round(by / ZONE)) < 5 * ROUNDING for by in late.values())
    of_one_host = len(hosts) == 1 and None not in hosts
    return late if on_one_clock or of_one_host or (few and not zones) else {}


def _late_among(calls: Mapping[int, Call]) -> dict[int, float]:
    came = {rank: call.created_at or 0.0 for rank, call in calls.items()}
    order = sorted(came, key=lambda rank: came[rank])
    for count in range(1, len(order)):
        before, after = order[:count], order[count:]
        gave_up = max(calls[rank].given_up_at or 0.0 for rank in before)
        early = all(calls[rank].failed_early for rank in after)
        if early and not any(calls[rank].failed_early for rank in before):
            gave_up = came[before[-1]] + WELL + ROUNDING
        if came[after[0]] + ROUNDING >= gave_up and len(after) <= len(before):
            return {rank: came[rank] - came[before[0]] for rank in after}
    return {}
