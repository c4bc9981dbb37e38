"""Which of the signatures that matched is the cause: order them, and see which explains which."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import SignOfLife
from whyhang.analyzer.model import Record
from whyhang.analyzer.queries.hits import about_same
from whyhang.analyzer.signature import Hit, Kind, Signature

ENOUGH = 0.5  # a mere possibility explains nothing away


class Candidate(Record):
    """A signature that matched, with one of its hits."""

    signature: Signature
    hit: Hit

    @property
    def confidence(self) -> float:
        """Scale what the signature is worth by how clear the hit is."""
        return round(max(0.05, min(0.99, self.signature.worth * self.hit.strength)), 2)


def overcome(case: Case, candidate: Candidate) -> bool:
    """Tell trouble at the start that a job got over: it is seen at work further down."""
    if not candidate.signature.category.startswith("init-"):
        return False
    alive = {sign.source.file: sign.source.line or 0 for sign in case.job.of(SignOfLife)}
    pieces = candidate.hit.evidence
    return bool(pieces) and all(alive.get(p.source, 0) > (p.line or 0) > 0 for p in pieces)


def without_last_resorts(candidates: list[Candidate]) -> list[Candidate]:
    """Drop what only counts where nothing else was found, if something was."""
    telling = [
        c for c in candidates if not c.signature.last_resort and c.signature.kind is not Kind.NOISE
    ]
    return telling or candidates


def cause_order(candidate: Candidate) -> tuple[float, float, int, str]:
    """Order causes: surer first, then the earlier, then the one on fewer ranks."""
    hit = candidate.hit
    return (
        -candidate.confidence,
        hit.at if hit.at is not None else float("inf"),
        len(hit.members) or 10**6,
        candidate.signature.id,
    )


def effect_order(candidate: Candidate) -> tuple[bool, tuple[float, float, int, str]]:
    """Let the surest effect lead where no cause is known; how a launcher ended it tells least."""
    return (candidate.signature.gives_way, cause_order(candidate))


def effect_time(candidate: Candidate) -> tuple[float, str]:
    """Order effects of a known cause by when they were seen."""
    at = candidate.hit.at
    return (at if at is not None else float("inf"), candidate.signature.id)


def outranked_by(
    candidate: Candidate, causes: list[Candidate], restarts: list[tuple[str, int]]
) -> Candidate | None:
    """Find a cause about the same ranks that explains this one."""
    for other in causes:
        if other is not candidate and _of_one_end(candidate, other):
            return other
        if other is candidate or other.confidence < ENOUGH or _of_one_end(other, candidate):
            continue
        named = candidate.signature.id in other.signature.explains
        if named and about_same(candidate.hit, other.hit):
            return other
        if _starts_anew(candidate) and any(
            _before(other, restart) and not _before(candidate, restart) for restart in restarts
        ):
            return other
        dies = candidate.signature.category == "rank-died" and not candidate.signature.gives_way
        if dies and other.signature.gives_way and _came_first(other, candidate):
            return other  # a rank that was left behind may well crash
        if not candidate.signature.gives_way or other.signature.gives_way:
            continue
        no_answer = other.signature.category == "unknown"
        if (
            not no_answer
            and not _came_first(candidate, other)
            and not _starts_anew(other, restarts)
        ):
            return other
    return None


def _of_one_end(candidate: Candidate, other: Candidate) -> bool:
    """Return whether another finding rests on the same line about the same rank, and says more.

    The one that only says who waits for the rank gives way to the one that says how it ended,
    unless that is a mere possibility.
    """
    mine, theirs = candidate.hit, other.hit
    if mine.members != theirs.members or bool(mine.affected) is bool(theirs.affected):
        return False
    lines = {(piece.source, piece.line) for piece in mine.evidence}
    if not any((piece.source, piece.line) in lines for piece in theirs.evidence):
        return False
    says_how = candidate if theirs.affected else other
    return (says_how is other) is (says_how.confidence >= ENOUGH)


def restarts_of(candidates: list[Candidate]) -> list[tuple[str, int]]:
    """List the lines at which an attempt of the job ended and another began."""
    return [
        (piece.source, piece.line)
        for candidate in candidates
        if candidate.signature.restarts
        for piece in candidate.hit.evidence
        if piece.line is not None
    ]


def _starts_anew(candidate: Candidate, restarts: list[tuple[str, int]] | None = None) -> bool:
    """Tell a failure to start; with ``restarts``, one that comes after an attempt has failed."""
    starting = candidate.signature.category.startswith(("init-", "store-key"))
    if restarts is None:
        return starting
    return starting and any(not _before(candidate, restart) for restart in restarts)


def _before(candidate: Candidate, place: tuple[str, int]) -> bool:
    """Tell whether something of a finding stands above a line of a file, or in another file."""
    file, line = place
    lines = [p.line for p in candidate.hit.evidence if p.source == file and p.line is not None]
    return not lines or min(lines) < line


def _came_first(candidate: Candidate, other: Candidate) -> bool:
    """Tell whether a finding on some rank stands above one on another rank, in one file."""
    mine, theirs = set(candidate.hit.members), set(other.hit.members)
    if not mine or not theirs or mine & theirs:
        return False
    places = [(p.source, p.line) for p in candidate.hit.evidence if p.line is not None]
    return any(
        not _before(other, place)
        for place in places
        if any(p.source == place[0] for p in other.hit.evidence)
    )
