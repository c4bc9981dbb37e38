"""Which finding explains which: the deeper level explains the shallower.

Every signature has a level (``signature.Level``). Among findings about connected ranks the one of
the deepest level is the cause and the others follow from it. Ranks are connected if they are the
same, or if those of the effect wait for those of the cause; where nothing shows who waits for
whom, all ranks of a job are, and so is a finding that names nobody. Within a level, the surer of
two findings on the same ranks explains the other (of equals the one that names a rank, then the
earlier), and on different ranks the earlier explains the later.

A mere possibility explains nothing away. A failure to start is explained by the failure of the
attempt before it, and explains nothing of that. Where two findings rest on one line about one
rank, or are about its death, the one that says how the rank ended leads. What
``Signature.explains`` names is explained whatever the levels are.
"""

import sys
from collections import defaultdict

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, SignOfLife
from whyhang.analyzer.facts.times import before, latest
from whyhang.analyzer.findings.categories import KINDS
from whyhang.analyzer.findings.signature import LEVELS, Hit, Kind, Signature
from whyhang.analyzer.queries.hits import about_same
from whyhang.analyzer.queries.waits.states import all_seen, is_starting
from whyhang.analyzer.rank_state.from_logs.log_ends import (
    all_tails,
    ended_well,
    have_ended,
    trained_on,
)
from whyhang.analyzer.stacks import WaitKind

ENOUGH = 0.5  # a mere possibility explains nothing away
ENDED = "rank-died"  # the category
POSSIBLE, LIKELY = 0.6, 0.8  # and what is not even possible nothing that is likely

Line = tuple[str, int]
"""A file and a line of it."""


class Candidate(Record):
    """A signature that matched, with one of its hits."""

    signature: Signature
    hit: Hit

    @property
    def confidence(self) -> float:
        """Scale what the signature is worth by how clear the hit is."""
        return round(max(0.05, min(0.99, self.signature.worth * self.hit.strength)), 2)

    @property
    def depth(self) -> int:
        """Return the place of its level: 0 is the deepest."""
        return LEVELS.index(self.signature.level)

    @property
    def only_sums_up(self) -> bool:
        """Return whether it only sums up what is seen, which has no place beside its cause."""
        signature = self.signature
        seen = signature.level == "summary" and not signature.patterns
        return seen and signature.category == "unknown"


Order = tuple[int, float, bool, float, Line, str]


def order(candidate: Candidate) -> Order:
    """Order findings: the deepest level first; within it the surer, the named, the earlier."""
    hit = candidate.hit
    unnamed = not (hit.members or hit.ranks)
    place = min(((piece.source, piece.line or 0) for piece in hit.evidence), default=("", 0))
    surer = (candidate.depth, -candidate.confidence)
    return (*surer, unnamed, latest(hit.at), place, candidate.signature.id)


def root_order(candidate: Candidate) -> tuple[bool, Order]:
    """Order what nothing explains: guesses come last."""
    return (candidate.confidence < POSSIBLE, order(candidate))


def effect_order(candidate: Candidate) -> tuple[float, Order]:
    """Order effects of a known cause by when they were seen."""
    return (latest(candidate.hit.at), order(candidate))


def overcome(case: Case, candidate: Candidate) -> bool:
    """Return whether a job got over this trouble: it is seen further down.

    At work, if it was trouble to start; at its planned end, if it was one that passes; at steps
    that go on to the planned end, or to the end of a log without any trouble, whatever it was, if
    no machine is broken. What a log tells of trouble to start is over, too, where all ranks of a
    living job are seen past the start.
    """
    pieces, places = candidate.hit.evidence, candidate.hit.places
    if candidate.signature.category.startswith("init-"):
        read_in_logs = bool(places) and places.issubset(line.source for line in case.job.lines)
        if read_in_logs and _is_past_start(case):
            return True
        alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    elif candidate.signature.category in KINDS["passes"] and have_ended(case.job):
        # also what stands below the end: a hook that runs at exit, and reaches nobody
        alive = dict.fromkeys((tail.source.file for tail in all_tails(case.job)), sys.maxsize)
    else:
        alive = {}
    if pieces and all(alive.get(p.source, 0) > (p.line or 0) > 0 for p in pieces):
        return True
    if candidate.signature.level == "machine" or candidate.signature.category in KINDS["of-moving"]:
        return False
    if candidate.signature.level == "peer" and ended_well(case.job):
        return True  # who comes to the end leaves the others
    is_over = trained_on(case.job)
    return bool(pieces) and all(
        p.line is not None and is_over(p.source, p.line, p.rank) for p in pieces
    )


def _is_past_start(case: Case) -> bool:
    """Return whether a job that was looked at stands in a collective, with nobody missing."""
    places = (s.place for s in case.states if case.member(s.member).processes and s.place)
    met = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD}
    inside = any(place.kind in met for place in places)
    return inside and not (case.job.missing or is_starting(case)) and all_seen(case)


def without_fallbacks(candidates: list[Candidate]) -> list[Candidate]:
    """Drop what only counts where nothing else was found, if something was.

    A consequence leaves the cause open: beside it, possible causes stay.
    """
    signatures = ((c, c.signature) for c in candidates)
    telling = [c for c, s in signatures if s.level != "fallback" and s.kind is not Kind.NOISE]
    if not telling or any(each.signature.kind is Kind.CAUSE for each in telling):
        return telling or candidates
    causes = (c for c in candidates if c.signature.level == "fallback")
    return [*telling, *(c for c in causes if c.signature.category not in KINDS["tells-nothing"])]


def causes_above(candidates: list[Candidate], restarts: list[Line]) -> list[Candidate | None]:
    """Return for each cause the one that explains it, if any; there is always one without."""
    above: list[Candidate | None] = []
    for each in candidates:
        others = (other for other in candidates if other is not each)
        above.append(next((other for other in others if explains(other, each, restarts)), None))
    if above and None not in above:
        above[0] = None
    return above


def explains(cause: Candidate, effect: Candidate, restarts: list[Line]) -> bool:
    """Return whether one finding is the cause of another; see the module for the rule."""
    if _of_one_end(effect, cause):
        return True
    if cause.confidence < ENOUGH or _of_one_end(cause, effect):
        return False
    same_ranks = about_same(cause.hit, effect.hit)
    if connected(cause.hit, effect.hit) and effect.signature.id in cause.signature.explains:
        return True
    if same_ranks and cause.signature.id in effect.signature.explains:
        return effect.confidence < ENOUGH
    if _starts_anew(cause, restarts) or _starts_anew(effect, restarts):
        return not _starts_anew(cause, restarts)
    if not connected(cause.hit, effect.hit) or cause.depth > effect.depth:
        return False
    if cause.depth < effect.depth:
        return cause.confidence >= POSSIBLE or effect.confidence < LIKELY
    if cause.signature.level == "fallback":
        return False
    return order(cause) < order(effect) if same_ranks else _happened_before(cause, effect)


def connected(cause: Hit, effect: Hit) -> bool:
    """Return whether the ranks of one finding may be in trouble because of those of another."""
    if about_same(cause, effect) or set(effect.members) & set(cause.affected):
        return True
    return not cause.affected and not effect.affected


def restarts_of(candidates: list[Candidate]) -> list[Line]:
    """Return the lines at which an attempt of the job ended and another began."""
    hits = (candidate.hit for candidate in candidates if candidate.signature.restarts)
    pieces = (piece for hit in hits for piece in hit.evidence)
    return [(piece.source, piece.line) for piece in pieces if piece.line is not None]


def _happened_before(cause: Candidate, effect: Candidate) -> bool:
    """Return whether an event came before another, by time or by lines of a file.

    How something is set up is no event.
    """
    if cause.signature.level == "setup":
        return False
    if cause.hit.at is not None and effect.hit.at is not None:
        if before(cause.hit.at, effect.hit.at):
            return True
        if before(effect.hit.at, cause.hit.at):
            return False
    first = {piece.source: piece.line for piece in reversed(effect.hit.evidence) if piece.line}
    lines = ((p.line, first.get(p.source, 0)) for p in cause.hit.evidence if p.line is not None)
    return any(line < of_effect for line, of_effect in lines)


def _of_one_end(candidate: Candidate, other: Candidate) -> bool:
    """Return whether another finding is about the same end of the same rank, and says more.

    They rest on the same line, or both say that the rank has died.

    The one that only says who waits for the rank gives way to the one that says how it ended,
    unless that is a mere possibility.
    """
    mine, theirs = candidate.hit, other.hit
    same = (mine.members, mine.ranks) == (theirs.members, theirs.ranks)
    if not same or bool(mine.affected) is bool(theirs.affected):
        return False
    of_end = candidate.signature.category == other.signature.category == ENDED
    if mine.places.isdisjoint(theirs.places) and not of_end:
        return False
    says_how = candidate if theirs.affected else other
    return (says_how is other) is (says_how.confidence >= ENOUGH)


def _starts_anew(candidate: Candidate, restarts: list[Line]) -> bool:
    """Return whether this is a failure to start that comes after an attempt has failed."""
    lines: dict[str, list[int]] = defaultdict(list)
    for piece in candidate.hit.evidence:
        lines[piece.source] += [piece.line] if piece.line is not None else []
    starting = candidate.signature.category.startswith(("init-", "store-key"))
    return starting and any(lines[file] and min(lines[file]) >= line for file, line in restarts)
