"""Recorded calls: what the ledger concluded from recorder dumps, watchdog lines and counters.

With it what NCCL's health network (RAS) reports: who is missing, and what its counts prove.
"""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import CallFinding, Verdict
from whyhang.analyzer.collectives.groups import COUNTERS
from whyhang.analyzer.collectives.waits import CallRef
from whyhang.analyzer.facts import Account, Deed, LastLine, LogLine, ranks_in_words, replace
from whyhang.analyzer.facts.calls import ROOTED
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.hits import MAX_QUOTES, cite_lines, members_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.left_loops import came_past_in_words
from whyhang.analyzer.queries.waits.loop_left import past_its_partners
from whyhang.analyzer.rank_state.listed import ras_lines, snapshot
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import Collective, Evidence, cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wording.describe import location_of, pid_in_words, site_location
from whyhang.analyzer.wording.ways_past import left_in_words

NCCL_LINES = "nccl-coll"
"""Tracks of NCCL's own lines for each call."""
NEAR = 16  # lines from the end of an excerpt

MAX_CALLS = 3
"""Calls that a title names where ranks hold up several."""

SIZES = {"size": "shapes", "dtype": "dtypes"}
"""What one operation can differ in, in the words of a report."""

TO_COMPARE = {
    "size": "what the sizes of the tensor depend on, rank by rank: the last batch, which may be "
    "shorter (drop_last=True), lengths of the data, parameters that only some have. Pad it, or "
    "exchange the sizes first.",
    "dtype": "what the dtype depends on, rank by rank: autocast, a model or an input that was "
    "converted on some ranks only.",
}
"""Where to look for the reason of such a difference."""
PLACES = "the two places in the code: which condition sends the ranks different ways?"


@query
def recorded(case: Case, *verdicts: Verdict) -> tuple[Hit, ...]:
    """Return one hit for each of these verdicts on recorded calls that no other explains."""
    findings = case.graph.calls.of(*verdicts)
    return tuple(
        recorded_hit(case, _with_who_differs(case, _with_who_came_past(case, finding)))
        for finding in findings
    )


def _with_who_differs(case: Case, finding: CallFinding) -> CallFinding:
    """Blame, at a tie, the side of whose ranks alone a person writes that they do not as others."""
    written = {
        account.who.rank
        for account in (case.job.of(Account) if finding.tie else ())
        if account.deed in {Deed.CONTRASTED, Deed.ODD}
    }
    odd = [side for side in finding.sides if written.intersection(side.ranks)]
    if len(odd) != 1 or not written >= set(odd[0].ranks):
        return finding
    culprits = odd[0].ranks
    waiting = tuple(rank for rank in finding.waiting if rank not in culprits)
    return replace(
        finding, culprits=culprits, waiting=waiting, tie=False, by_history=True, site=odd[0].site
    )


def _with_who_came_past(case: Case, finding: CallFinding) -> CallFinding:
    """Say, of ranks that wait for each other, which has come past the call of another, and how.

    Where the groups of their calls are known, the fewest of two sides are where to look first,
    unless it is the others that may have left their call out.
    """
    if finding.verdict is not Verdict.CROSS_GROUP or finding.culprits:
        return _with_who_left(case, finding)
    few, many = _sides_caught(case)
    past = left_in_words(case, many, few, finding.says) if few else ""
    if past:
        return replace(finding, says=f"{finding.says}{past}")
    if fewest := case.ranks(few):
        return replace(
            finding,
            culprits=fewest,
            waiting=tuple(rank for rank in finding.waiting if rank not in fewest),
            affected=tuple(rank for rank in finding.affected if rank not in fewest),
            by_history=True,
            site=case.graph.calls.positions[fewest[0]].site,
        )
    ranks = [rank for side in finding.sides for rank in side.ranks]
    members = [case.job.by_rank[rank] for rank in ranks if rank in case.job.by_rank]
    for waits, awaited in zip(members, [*members[1:], *members[:1]], strict=True):
        if words := came_past_in_words(case, [awaited], [waits], finding.says):
            return replace(finding, says=f"{finding.says}{words}")
    return finding


def _sides_caught(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the fewer and the more members, of two calls whose ranks wait for each other."""
    sides = sorted((o.members for o in case.graph.operations), key=len)
    rooted = any(operation.op in ROOTED for operation in case.graph.operations)
    if not case.graph.caught or len(sides) != 2 or len(sides[0]) == len(sides[1]) or rooted:
        return (), ()
    return sides[0], sides[1]


def _with_who_left(case: Case, finding: CallFinding) -> CallFinding:
    """Blame the rank that has left the loop in which all of its partners wait for it, if any."""
    if finding.verdict is not Verdict.P2P_UNPAIRED or finding.culprits:
        return finding
    left = past_its_partners(case)
    if left is None or (rank := case.member(left[0].member).rank) not in finding.waiting:
        return finding
    return replace(
        finding,
        says=f"{finding.says}; rank {rank} has left {left[1]} in which its partners wait for it",
        culprits=(rank,),
        waiting=tuple(other for other in finding.waiting if other != rank),
        affected=tuple(other for other in finding.affected if other != rank),
        site=case.graph.calls.positions[rank].site,
    )


def recorded_hit(case: Case, finding: CallFinding) -> Hit:
    """Turn one finding of the ledger into a hit, with the words of a title."""
    members = sorted(members_of(case, finding.culprits))
    affected = members_of(case, finding.affected or finding.waiting)
    call = _calls(finding)
    last = "their last calls" if len(finding.culprits) > 1 else "its last call"
    where = in_words(finding.site) if finding.site else last
    fields = {
        "who": _who(finding),
        "pid": pid_in_words(case, members),
        "call": call,
        "seen": f"Everyone that was seen is inside {call}; no rank is missing.",
        "others": ranks_in_words(finding.waiting)
        if finding.waiting and (finding.culprits or finding.verdict is not Verdict.STALLED)
        else "the others",
        "waiting": f" while {ranks_in_words(finding.waiting)} "
        f"wait{'s' if len(finding.waiting) == 1 else ''} in {call}"
        if finding.waiting
        else "",
        "does": _last(finding),
        "at": f" at {in_words(finding.site)}" if finding.site else "",
        "where": where,
        "look": f"Look at {where}",
        "sides": _sides(finding),
        "differ": f"call {finding.call.op} with different {SIZES[finding.field]}"
        if finding.call and finding.call.op and finding.field in SIZES
        else "are out of step"
        if finding.verdict is Verdict.DIVERGED
        else "call different collectives",
        "compare": TO_COMPARE.get(finding.field or "", PLACES),
        "did": "has" if len(finding.waiting) == 1 else "have",
        "says": finding.says,
        "past": "",
    }
    files = {source.file for source in finding.sources}
    counted = [  # by NCCL's health network, of the culprits
        line
        for line in ras_lines(case.job, "behind")
        if line.source.file in files and line.who.rank in finding.culprits
    ]
    stands = [case.states[n] for n in members if finding.culprits and case.states[n].place]
    return Hit(
        ranks=finding.culprits,
        affected=tuple(sorted(affected)),
        evidence=(
            *cite_lines(counted),
            *_cited(case, finding),
        ),
        strength=_strength(case, finding),
        names_culprit=bool(finding.culprits)
        and not finding.tie
        and not others_elsewhere(case, finding),
        collective=_collective(finding),
        location=site_location(finding.site) or (location_of(case, stands[0]) if stands else None),
        fields=fields,
    )


def _cited(case: Case, finding: CallFinding) -> Iterator[Evidence]:
    """Cite the records that a finding rests on: of a log as it was printed, else in words."""
    quotes = finding.quotes[:MAX_QUOTES]
    places = {call.source for call in quotes}
    printed = {line.source: line.text for line in case.job.lines if line.source in places}
    for call in quotes:
        if call.source is not None:
            yield cite(call.source, printed.get(call.source, call.quote), call.rank)


def _who(finding: CallFinding) -> str:
    """Name the culprits; where a call is not finished and nobody is to blame, those inside."""
    if finding.culprits:
        return ranks_in_words(finding.culprits)
    stalled = finding.verdict is Verdict.STALLED and finding.waiting
    return ranks_in_words(finding.waiting) if stalled else "no single rank"


def _calls(finding: CallFinding) -> str:
    """Name the call; where several ranks hold up several calls, each with its ranks."""
    if len(finding.parts) < 2:
        return str(finding.call) if finding.call else "a collective"
    named = [
        f"{part.call} ({ranks_in_words(part.culprits)})" for part in finding.parts if part.call
    ]
    more = f" and {len(named) - MAX_CALLS} more" if len(named) > MAX_CALLS else ""
    return " and ".join(named[:MAX_CALLS]) + more


def _last(finding: CallFinding) -> str:
    first = finding.parts[0].culprits if finding.parts else finding.culprits
    alone = len(finding.culprits) == 1
    if finding.missed is not None:
        whose = "its" if alone or not first else f"rank {first[0]}'s"
        return f"{whose} last call was {finding.missed}"
    return f"{'it has' if alone else 'they have'} not enqueued the call"


def _sides(finding: CallFinding) -> str:
    if not finding.sides:
        return finding.says
    sites = {in_words(side.site) for side in finding.sides if side.site}
    one = len(sites) == 1 and all(side.site for side in finding.sides)
    sides = " and ".join(
        f"{ranks_in_words(side.ranks)} {side.says}"
        + (f" ({in_words(side.site)})" if side.site and not one else "")
        for side in finding.sides
    )
    if one:
        sides += f", at {sites.pop()}"
    shift = finding.shift_says
    return f"{shift[:1].lower()}{shift[1:]}; {sides}" if shift else sides


def _collective(finding: CallFinding) -> Collective | None:
    call: CallRef | None = finding.call
    if call is None or call.op is None:
        return None
    others = None
    if len(finding.sides) > 1:
        others = "; ".join(f"{ranks_in_words(s.ranks)} {s.says}" for s in finding.sides)
    return Collective(op=call.op, group=call.group or None, seq=call.seq, others=others)


def _strength(case: Case, finding: CallFinding) -> float:
    """Return how sure it is: less for conclusions, and for launches that were counted once."""
    kinds = {track.kind for track in case.job.tracks if track.source in finding.sources}
    lagging = finding.verdict in {Verdict.NEVER_JOINED, Verdict.STALLED}
    if lagging and kinds and kinds <= COUNTERS and snapshot(case.job):
        return INDIRECT
    if finding.unrecorded or others_elsewhere(case, finding):
        return CONTRADICTED
    if lagging and finding.inferred and kinds == {NCCL_LINES} and _breaks_off(case, finding):
        return GUESSED * INDIRECT
    guessed = finding.inferred or finding.by_history or finding.verdict is Verdict.DIVERGED
    return INDIRECT if guessed else CLEAR


def _breaks_off(case: Case, finding: CallFinding) -> bool:
    """Return whether an excerpt of several ranks ends so soon that a next call may follow."""
    ends = {end.source.file: end.source.line or 0 for end in case.job.of(LastLine)}
    last = {q.rank: q.source for q in finding.quotes if q.source and q.rank in finding.culprits}
    shared = len({source.file for source in finding.sources}) == 1 < len(finding.quotes)
    left = [ends.get(at.file, float("inf")) - (at.line or 0) for at in last.values()]
    return shared and bool(left) and max(left) <= NEAR


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


@query
def ras_reported(case: Case, *states: str, named: bool = True) -> tuple[Hit, ...]:
    """Return one hit for all ranks of which a RAS report says one of these words, if any.

    "dead", "unresponsive", "left", "starting", "leaving", "error", "remote", "aborted",
    "timeouts" are its own; "ahead" (few ranks launched what most have not), "diverged" (counts
    that no common order explains), "uneven", "even" and "none" are read off its counts.
    ``named``: the processes that it speaks of are the ones to look at. Of several reports the last
    counts.
    """
    lines = ras_lines(case.job, *states)
    if not lines:
        return ()
    members = {line.who: case.job.member_of(line.who) for line in lines}
    known = {member.id for member in members.values() if member is not None}
    ranks = {w.rank for w, m in members.items() if m is None and w.rank is not None}
    everyone = all(m is not None or w.rank is not None for w, m in members.items())
    hit = Hit(
        members=tuple(sorted(known)),
        ranks=tuple(sorted(ranks)),
        names_culprit=named and everyone and bool(known or ranks),
        evidence=cite_lines(lines),
        fields={
            **lines[0].fields,
            "pid": lines[0].fields["process"],
            "processes": _ras_processes(lines),
            "times": str(len(lines)),
        },
    )
    return (hit,)


def _ras_processes(lines: list[LogLine]) -> str:
    """Name processes: "process 48213 on 10.1.0.4 (GPU 5)"."""
    processes = {
        f"process {line.fields['process']} on {line.fields['node']} (GPU {line.fields['gpu']})"
        for line in lines
        if line.fields["process"] != "?"
    }
    if not processes:
        numbers = {line.fields.get("number", "?") for line in lines}
        return f"rank {', '.join(sorted(numbers))} of {lines[0].fields.get('comm', 'the job')}"
    shown = sorted(processes)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
