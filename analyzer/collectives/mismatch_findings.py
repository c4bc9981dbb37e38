"""Findings about ranks that met in different calls, and how they came to differ."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from whyhang.analyzer.collectives import call_words
from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_graph import CallGraph
from whyhang.analyzer.collectives.mismatch import Mismatch, Side
from whyhang.analyzer.collectives.pending import issued, site_of
from whyhang.analyzer.collectives.routine import departures
from whyhang.analyzer.collectives.shared_calls import SharedCall
from whyhang.analyzer.collectives.shift import Shift, find_shift, left_loop
from whyhang.analyzer.facts import Call, replace

MAX_MISMATCHES = 8
"""Mismatches that are reported; more are of the same kind."""

MAX_STUDIED = 4
"""Culprits of one call whose whole recorder is read for a skipped call."""

VALUES: dict[str, Callable[[Call], object]] = {
    "size": lambda call: (call.input_sizes, call.output_sizes),
    "dtype": lambda call: call.dtypes,
}
"""What a call carries, by the field in which calls differ."""

MIN_KNOWN = 2
"""How often a size or type must have been carried to be a usual one."""


def mismatches(graph: CallGraph) -> Iterable[CallFinding]:
    """Yield a finding for each call in which ranks called different things, the fullest first."""
    differing = [(c, c.mismatch) for c in graph.collectives.values() if c.mismatch is not None]
    differing.sort(key=lambda each: -len(each[0].inside))
    for collective, mismatch in differing[:MAX_MISMATCHES]:
        yield _mismatch(graph, collective, mismatch)


def _mismatch(graph: CallGraph, collective: SharedCall, mismatch: Mismatch) -> CallFinding:
    ranks = [side.ranks[0] for side in mismatch.sides]
    group, progress = collective.group, collective.progress
    first = [issued(group, progress[n], progress[n].calls[collective.seq]) for n in ranks]
    both = zip(mismatch.sides, first, strict=True)
    sides = tuple(replace(side, site=call.site) for side, call in both)
    culprits, by_history = mismatch.minority, False
    if mismatch.tie:
        culprits = _unusual_value(collective, mismatch.field, sides)
        if not culprits:
            studied = [side.ranks[:MAX_STUDIED] for side in sides]
            every = [rank for own in studied for rank in own]
            left = {each.rank for each in departures(graph.job, every)}
            of_one_side = [s.ranks for s, own in zip(sides, studied, strict=True) if left == {*own}]
            culprits = next(iter(of_one_side), ())
        by_history = bool(culprits)
    odd = next((side for side in sides if set(side.ranks) & set(culprits)), sides[-1])
    finding = CallFinding(
        verdict=Verdict.MISMATCH,
        call=collective.call,
        culprits=culprits,
        waiting=tuple(rank for rank in collective.ranks if rank not in culprits),
        affected=graph.reaching(collective.ranks, culprits),
        field=mismatch.field,
        sides=sides,
        tie=mismatch.tie and not by_history,
        by_history=by_history,
        site=odd.site,
        quotes=tuple(call for call in first if call.source is not None),
        inferred=collective.inferred,
    )
    if not culprits:
        return finding
    # Did the odd ranks leave a call out, make one too many, or leave the loop?
    usual = next((side for side in sides if side is not odd), sides[0])
    calls, usual_calls = (progress[side.ranks[0]].collectives() for side in (odd, usual))
    # A barrier of rank 0 alone rather belongs to a checkpoint that only it writes.
    if culprits != (0,) and left_loop(calls, usual_calls, collective.seq):
        return replace(finding, verdict=Verdict.LEFT_LOOP)
    shift = find_shift(calls, usual_calls)
    if shift is None or shift.seq > collective.seq:
        return finding
    return _shifted(finding, collective, shift)


def _unusual_value(collective: SharedCall, field: str, sides: Sequence[Side]) -> tuple[int, ...]:
    """Of two sides with other sizes or types, find the one that carries what nobody did before.

    At this line of code both have carried what the other side carries, and neither this.
    """
    value = VALUES.get(field)
    if value is None or len(sides) != 2:
        return ()
    now, before = [], []
    for side in sides:
        calls = collective.progress[side.ranks[0]].collectives()
        call = calls[collective.seq]
        step = call.op, site_of(call)
        now.append(value(call))
        before.append(
            Counter(
                value(earlier)
                for seq, earlier in calls.items()
                if seq < collective.seq and (earlier.op, site_of(earlier)) == step
            )
        )
    for odd, usual in ((0, 1), (1, 0)):
        known = min(count[now[usual]] for count in before)
        if known >= MIN_KNOWN and not any(count[now[odd]] for count in before):
            return sides[odd].ranks
    return ()


def with_skipped(finding: CallFinding, collective: SharedCall, usual: int) -> CallFinding:
    """Say whether ranks are behind because they left a call out before; ``usual`` did not."""
    progress = collective.progress
    usual_calls = progress[usual].collectives()
    for rank in finding.culprits[:MAX_STUDIED]:
        shift = find_shift(progress[rank].collectives(), usual_calls)
        if shift is not None and shift.verdict is not Verdict.EXTRA:
            return replace(
                _shifted(finding, collective, shift), site=site_of(shift.missed) or finding.site
            )
    return finding


def _shifted(finding: CallFinding, collective: SharedCall, shift: Shift) -> CallFinding:
    missed = issued(collective.group, collective.progress[finding.culprits[0]], shift.missed)
    shift_says = call_words.shifted(finding.culprits, shift, missed)
    return replace(
        finding,
        verdict=shift.verdict,
        says=f"{shift_says}: {call_words.AGREE}",
        shift_says=shift_says,
        missed=missed.ref,
    )
