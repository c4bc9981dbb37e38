"""The last phase of each rank: its own lines, aligned with those of the others.

Programs print their own phases, and nobody knows these lines beforehand. Ranks of one role print
the same ones, so what they have in common is an event that all of them come to: a template with
those of its values that are the same on several ranks (a step, an epoch; not a loss). A rank whose
events end before those of the others, or that stops in a phase of its own, is where to look, and
the first event that it lacks says what it did not do.

Nothing is concluded of logs that end within a line (buffered, or cut), at different places of a
loop, of ranks that print less or other things than the rest, and of more than one in four ranks.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from whyhang.analyzer.facts import LogTail, OwnLine, Record, Source

ALIKE = 0.6  # of the templates of ranks with one role
COMPLETE = 0.8  # of the events of the others that a rank of their role has
MOST = 0.75  # of the others, which agree
FEW = 4  # one rank in so many may be behind; of fewer ranks, one
NEAR = 3  # steps by which a log may be behind that ends where a step ends
FAR = 20  # steps: no rank is so far behind, its log is cut
COMPARED = 16  # ranks that one is compared with, of thousands

Key = tuple[str, tuple[str, ...], int]


class LastPhase(Record):
    """Where the own lines of one rank part from those of the others.

    ``line`` is its last line, ``lacks`` the first of the others' that it does not have (None where
    it only stands in a phase of its own), ``others`` are those ranks. ``at_work``: its last lines
    are of a phase that the others are not in, rather than merely the end of its log.
    ``missed`` counts the events of the others that it lacks.
    """

    rank: int
    line: OwnLine
    source: Source
    others: tuple[int, ...]
    lacks: OwnLine | None = None
    lacks_source: Source | None = None
    at_work: bool = False
    missed: int = 0


class _Event(NamedTuple):
    key: Key | None  # None: an event of this rank alone
    line: OwnLine


class _Log(NamedTuple):
    """The events of one rank, and where each of them stands."""

    tail: LogTail
    events: list[_Event]
    place: dict[Key, int]
    templates: frozenset[str]


def last_phases(tails: Mapping[int, LogTail]) -> dict[int, LastPhase]:
    """Return the ranks that are behind, or in a phase of their own; none where they are many."""
    logs = _logs({rank: tail for rank, tail in tails.items() if tail.lines})
    phases = {rank: phase for rank in logs if (phase := _phase(rank, logs)) is not None}
    few = max(1, len(logs) // FEW)
    if len(phases) > few:  # who waits for one that is behind may stand elsewhere, too
        furthest = max(phase.missed for phase in phases.values())
        phases = {rank: phase for rank, phase in phases.items() if phase.missed == furthest}
    return phases if len(phases) <= few else {}


def shared_steps(tails: Mapping[int, LogTail]) -> dict[int, dict[Key, float]]:
    """Return when each rank was at the numbered events that several ranks have in common."""
    return {
        rank: {
            key: time
            for key, at in log.place.items()
            if key[1] and (time := log.events[at].line.time) is not None
        }
        for rank, log in _logs(tails).items()
    }


def _logs(tails: Mapping[int, LogTail]) -> dict[int, _Log]:
    """Make the lines of each rank events: those of one key happened on several ranks."""
    shared = _shared_values(tails)
    # Where lines count, one without a number that comes again and again has no place of its own;
    # nor where the beginning is not there.
    counts = any(shared.values()) or not all(tail.whole for tail in tails.values())
    keys: dict[int, list[Key]] = {}
    for rank, tail in tails.items():
        seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
        keys[rank] = []
        for line in tail.lines:
            same = tuple(line.values[at] for at in shared[line.template] if at < len(line.values))
            keys[rank].append((line.template, same, seen[line.template, same]))
            seen[line.template, same] += 1
    again = {key[:2] for own in keys.values() for key in own if key[2]} if counts else set()
    ranks = Counter(key for own in keys.values() for key in set(own) if key[:2] not in again)
    logs = {}
    for rank, tail in tails.items():
        events = [
            _Event(key if key[1] or ranks[key] > 1 else None, line)
            for key, line in zip(keys[rank], tail.lines, strict=True)
        ]
        place = {event.key: at for at, event in enumerate(events) if event.key is not None}
        templates = frozenset(line.template for line in tail.lines)
        logs[rank] = _Log(tail, events, place, templates)
    return logs


def _shared_values(tails: Mapping[int, LogTail]) -> dict[str, tuple[int, ...]]:
    """Return for each template which of its values count the same thing on all ranks."""
    by_place: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for rank, tail in tails.items():
        for line in tail.lines:
            for at, value in enumerate(line.values):
                if value.isdecimal():
                    by_place[line.template, at][value].add(rank)
    shared: dict[str, list[int]] = defaultdict(list)
    for (template, at), values in sorted(by_place.items()):
        if len(values) > 1 and 2 * sum(len(who) > 1 for who in values.values()) >= len(values):
            shared[template].append(at)
    return defaultdict(tuple, {template: tuple(places) for template, places in shared.items()})


def _phase(rank: int, logs: Mapping[int, _Log]) -> LastPhase | None:
    own = logs[rank]
    others = [other for other in logs if other != rank]
    others = others[:: max(1, len(others) // COMPARED)]
    peers = {other: logs[other] for other in others if _alike(own, logs[other])}
    if own.tail.cut or not peers or 2 * len(peers) < len(others):
        return None
    counts = Counter(key for log in peers.values() for key in log.place)
    common = {key for key, count in counts.items() if count >= MOST * len(peers)}
    last = max((at for key, at in own.place.items() if key in common), default=None)
    if last is None or not _has_its_part(own, peers, common, last):
        return None
    key = own.events[last].key
    behind = [key for key in _after(key, peers, common) if key not in own.place]
    front = behind[-1] if behind else key
    near = [x for x in peers.values() if front in x.place and len(x.events) - x.place[front] <= 3]
    if len(near) < MOST * len(peers):
        return None  # most others do not end at one event: logs cut anywhere do not
    rest = [event.line for event in own.events[last + 1 :]]
    if behind:
        return _behind(rank, own, peers, behind, rest)
    return _turned(rank, own, peers, rest)


def _alike(own: _Log, other: _Log) -> bool:
    """Return whether two ranks print the same things, as far as most of the first go.

    The few lines that it printed behind the last event that they share are what sets it apart, and
    no sign of another role.
    """
    shared = 1 + max((at for key, at in own.place.items() if key in other.place), default=-1)
    few = len(own.events) - shared < shared
    printed = {event.line.template for event in own.events[: shared if few else None]}
    both = len(own.templates & other.templates)
    return both >= max(1, ALIKE * len(printed)) and 2 * both >= ALIKE * len(other.templates)


def _has_its_part(own: _Log, peers: Mapping[int, _Log], common: set[Key], last: int) -> bool:
    """Return whether a rank printed what the others did, from where both logs begin."""
    first = next(at for at, event in enumerate(own.events) if event.key in common)
    begin, end = own.events[first].key, own.events[last].key
    for log in peers.values():
        if begin in log.place and end in log.place:
            window = [e.key for e in log.events[log.place[begin] : log.place[end] + 1]]
            expected = [key for key in window if key in common]
            return sum(key in own.place for key in expected) >= COMPLETE * len(expected)
    return False


def _after(key: Key | None, peers: Mapping[int, _Log], common: set[Key]) -> Iterator[Key]:
    """Yield the events that most others have behind one, in the order of one of them."""
    counts: Counter[Key] = Counter()
    longest: list[Key] = []
    for log in peers.values():
        if key in log.place:
            behind = [e.key for e in log.events[log.place[key] + 1 :] if e.key is not None]
            counts.update(behind)
            longest = max(longest, behind, key=len)
    yield from (k for k in longest if k in common and counts[k] >= MOST * len(peers))


def _behind(
    rank: int, own: _Log, peers: Mapping[int, _Log], behind: list[Key], rest: list[OwnLine]
) -> LastPhase | None:
    steps = [key for key in behind if key[0] in own.templates and key[1]]
    if len(peers) == 1 and not steps:
        return None  # of two ranks, one may simply print more
    again = all(key[0] in own.templates for key in behind)  # as a sign of life that all repeat
    if not steps and len(behind) < 2 and not rest and (len(peers) < 3 or again):
        return None
    missed = max(Counter(key[0] for key in steps).values(), default=0)
    if missed > FAR or (missed > NEAR and not rest):
        return None
    first = next(log for log in peers.values() if behind[0] in log.place)
    lacks = first.events[first.place[behind[0]]].line
    if steps:
        lacks = first.events[first.place[steps[0]]].line if steps[0] in first.place else lacks
    left = len(behind) > 1 and any(key[0] not in own.templates for key in behind)
    logs = [own, *peers.values()]
    # All others were at these steps in one log, and then somebody met trouble.
    in_one = len({log.tail.source.file for log in logs}) == 1 and len(peers) > 1
    followed = in_one and all(log.tail.troubled for log in logs)
    missed_last = followed and all(key in log.place for key in steps for log in peers.values())
    if steps and not (rest or left or missed_last):
        return None
    if lacks.template in {line.template for line in rest}:
        return None  # it printed that, with another value
    return LastPhase(
        rank=rank,
        line=own.events[-1].line,
        source=own.tail.source,
        others=tuple(sorted(peers)),
        lacks=lacks,
        lacks_source=Source(file=first.tail.source.file, line=lacks.number),
        at_work=bool(rest) or not steps,
        missed=len(behind),
    )


def _turned(
    rank: int, own: _Log, peers: Mapping[int, _Log], rest: list[OwnLine]
) -> LastPhase | None:
    """Return the phase of a rank that came as far as the others, and went on elsewhere.

    That is known of a line which is usually followed by another of this rank before the next
    event of all. What only one rank prints, and once, is no phase: a warning looks so.
    """
    followers = [
        behind.key is None
        for log in (own, *peers.values())
        for event, behind in itertools.pairwise(log.events)
        if rest and event.line.template == rest[-1].template
    ]
    if not followers or sum(followers) < MOST * len(followers):
        return None
    return LastPhase(
        rank=rank, line=rest[-1], source=own.tail.source, others=tuple(sorted(peers)), at_work=True
    )
