"""Who came to a call when the others had given it up: arithmetic on times.

A watchdog tells when it gives a call up and how long that ran, and so when its rank came. Who came
after the others had given up is whom they waited for; who came before, however late, is not: then
all were there. Clocks of hosts differ, by hours where a zone is set: ranks are compared with
those of their own host where hosts are known and their clocks were not measured, and elsewhere only
few late ones count, for a clock that is ahead makes all ranks of its host look late.

A call that failed before it came to its limit was made no earlier than that limit ago. If that is
well after the others came, whose limit it has outlived, it was not there for them: they would have
gone on with it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from whyhang.analyzer.collectives.pending import PendingCall
from whyhang.analyzer.facts import Call

WELL = 5.0  # seconds; clocks of hosts differ by less
ROUNDING = 1.0  # seconds to which logs tell times
MANY = 5  # times as many ranks must be there as are late, where their hosts are not known
ZONE = 1800.0
"""Clocks that differ by a multiple of these seconds are set to other zones."""


def late_arrivals(inside: Iterable[PendingCall]) -> dict[int, float]:
    """Return by how many seconds ranks came later than the others, who had given up by then."""
    by_host: dict[str | None, dict[int, Call]] = defaultdict(dict)
    one_clock = True
    for pending in inside:
        call = pending.call
        if call.created_at is not None and call.given_up_at is not None:
            by_host[_host(pending)][pending.rank] = call
            one_clock = one_clock and _on_one_clock(pending)
    if one_clock:
        return _late_among({rank: call for own in by_host.values() for rank, call in own.items()})
    if None not in by_host and any(len(own) > 1 for own in by_host.values()):
        return {rank: by for own in by_host.values() for rank, by in _late_among(own).items()}
    everyone = {rank: call for own in by_host.values() for rank, call in own.items()}
    late = _late_among(everyone)
    few = len(late) == 1 or len(late) * MANY <= len(everyone)
    return late if few and not any(map(_of_zones, late.values())) else {}


def _on_one_clock(pending: PendingCall) -> bool:
    tracks = pending.group.progress[pending.rank].tracks if pending.group is not None else ()
    return any(track.one_clock for track in tracks)


def _host(pending: PendingCall) -> str | None:
    tracks = pending.group.progress[pending.rank].tracks if pending.group is not None else ()
    return next((track.who.host for track in tracks if track.who.host), None)


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


def _of_zones(by: float) -> bool:
    return abs(by - ZONE * round(by / ZONE)) < 5 * ROUNDING
