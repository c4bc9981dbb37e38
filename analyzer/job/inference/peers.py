"""The peer of sends and receives that name none, where there are but two ranks."""

from collections.abc import Sequence

from whyhang.analyzer.facts import Fact, Track, replace
from whyhang.analyzer.job.world import size_in


def with_peers_of_two(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the other rank as the peer of calls, in a job of two."""
    if size_in(facts) != 2:
        return facts
    return [_with_peer(fact) if isinstance(fact, Track) else fact for fact in facts]


def _with_peer(track: Track) -> Track:
    others = {0, 1} - {track.who.rank}
    open_ended = any(call.p2p and call.peer is None for call in track.calls)
    if len(others) != 1 or not open_ended:
        return track
    (peer,) = others
    calls = (replace(c, peer=peer) if c.p2p and c.peer is None else c for c in track.calls)
    return replace(track, calls=tuple(calls))
