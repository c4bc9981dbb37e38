"""Hits and what they rest on: evidence with its place, and those about the same members as one."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Process, Who, replace
from whyhang.analyzer.findings.signature import CLEAR, Hit
from whyhang.analyzer.report import Collective, Evidence, cite
from whyhang.analyzer.wording.describe import evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def merged(*answers: Iterable[Hit]) -> tuple[Hit, ...]:
    """Join the answers of several queries; hits about the same ranks become one, surer."""
    by_ranks: dict[tuple[tuple[int, ...], tuple[int, ...]], Hit] = {}
    for hits in answers:
        for hit in hits:
            key = (hit.members, () if hit.members else hit.ranks)
            known = by_ranks.get(key)
            by_ranks[key] = merge(known, hit) if known else hit
    return tuple(by_ranks.values())


def merge(a: Hit, b: Hit) -> Hit:
    """Join two hits about the same thing: the words of the first count, the evidence of both."""
    return replace(
        a,
        affected=tuple(sorted({*a.affected, *b.affected})),
        evidence=(*a.evidence, *(piece for piece in b.evidence if piece not in a.evidence)),
        strength=1 - (1 - min(a.strength, 1)) * (1 - min(b.strength, 1) * 0.5),
        collective=a.collective or b.collective,
        location=a.location or b.location,
        fields={**b.fields, **a.fields},
        at=min((time for time in (a.at, b.at) if time is not None), default=None),
        gpus=tuple(dict.fromkeys((*a.gpus, *b.gpus))),
    )


def hit_about(
    case: Case,
    members: Sequence[int],
    affected: Sequence[int],
    *,
    evidence: Iterable[Evidence],
    fields: Mapping[str, str] | None = None,
    strength: float = CLEAR,
    names_culprit: bool = True,
    collective: Collective | None = None,
) -> Hit:
    """Return a hit about where members stand, while others wait for them, in the usual words."""
    states = [case.states[number] for number in members]
    return Hit(
        members=tuple(members),
        affected=tuple(affected),
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=names_culprit,
        collective=collective,
        location=location_of(case, states[0]),
        fields={**subject_fields(case, states, affected), **(fields or {})},
    )


def in_vain(
    case: Case,
    members: Sequence[int],
    affected: Iterable[int],
    *,
    collective: Collective | None,
    evidence: Iterable[Evidence] | None = None,
    strength: float = CLEAR,
    located: bool = True,
    **fields: str,
) -> Hit:
    """Return a hit that blames nobody, about where members wait in vain, in the usual words."""
    states = [case.states[number] for number in members]
    return Hit(
        affected=tuple(sorted(affected)),
        evidence=tuple(places_of(case, *members) if evidence is None else evidence),
        names_culprit=False,
        strength=strength,
        collective=collective,
        location=location_of(case, states[0]) if located else None,
        fields={**subject_fields(case, states, ()), **fields},
    )


def places_of(case: Case, *members: int) -> list[Evidence]:
    """Cite for each member the first thing that places it."""
    return [piece for n in members for piece in evidence_of(case, case.states[n])[:1]]


def about_same(a: Hit, b: Hit) -> bool:
    """Return whether two hits may be about the same ranks; one without ranks is about all."""
    return not a.members or not b.members or bool(set(a.members) & set(b.members))


def with_members(case: Case, hit: Hit) -> Hit:
    """Make members of the ranks of a hit, as far as there is evidence of them."""
    members = members_of(case, hit.ranks)
    unseen = tuple(rank for rank in hit.ranks if not members_of(case, (rank,)))
    return replace(hit, members=tuple(sorted({*hit.members, *members})), ranks=unseen)


def cite_line(line: LogLine) -> Evidence:
    """Return a log line as evidence."""
    return cite(line.source, line.text, line.who.rank)


def cite_environ(process: Process, keys: Iterable[str]) -> Evidence:
    """Return what a process has for variables of the environment, else its command line."""
    settings = " ".join(f"{key}={process.environ[key]}" for key in keys if key in process.environ)
    words = settings or process.command or "names no rank"
    return cite(process.source, f"pid {process.who.pid}: {words}", process.who.rank)


def members_of(case: Case, ranks: Iterable[int]) -> tuple[int, ...]:
    """Return the members (their numbers) with these ranks, as far as there is evidence of them."""
    known = (case.job.member_of(Who(rank=rank)) for rank in ranks)
    return tuple(member.id for member in known if member is not None)


def others_than(case: Case, ranks: Collection[int]) -> tuple[int, ...]:
    """Return the members that have none of these ranks."""
    return tuple(member.id for member in case.job.members if member.rank not in ranks)
