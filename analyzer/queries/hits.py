"""Hits and what they rest on: evidence with its place, and those about the same members as one."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogLine, Process, Who, replace
from whyhang.analyzer.facts.times import latest
from whyhang.analyzer.findings.signature import CLEAR, Hit
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.report import Collective, Evidence, cite
from whyhang.analyzer.wording.describe import evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields

MAX_QUOTES = 6
"""Lines of a log that a finding quotes."""

LONGEST = 80
"""Characters of a line that stands in a title."""


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
    members: Iterable[int],
    affected: Iterable[int],
    *,
    shown: Iterable[int] | None = None,
    evidence: Iterable[Evidence] | None = None,
    fields: Mapping[str, str] = MappingProxyType({}),
    strength: float = CLEAR,
    names_culprit: bool | None = None,
    collective: Collective | None = None,
    located: bool = True,
    category: str = "",
) -> Hit:
    """Return a hit about where members stand, while those ``affected`` wait for them.

    Where they stand is said in the usual words (``subject_fields``), beside which ``fields`` stand,
    or in their place; unless it is not to be ``located``, with the place of the first in the code;
    and by what places each, if there is no other ``evidence``. It ``names_culprit`` if there are
    members. ``shown`` are who stands there if these are not all members, or if nobody is to blame:
    then there are no members, and who is shown waits in vain, as do all ``affected``.
    """
    members, affected = tuple(members), tuple(affected)
    states = [case.states[number] for number in (members if shown is None else shown)]
    usual = subject_fields(case, states, affected if members else ())
    placed = places_of(case, *(state.member for state in states)) if evidence is None else evidence
    return Hit(
        members=members,
        affected=affected,
        evidence=tuple(placed),
        strength=strength,
        names_culprit=bool(members) if names_culprit is None else names_culprit,
        collective=collective,
        location=location_of(case, states[0]) if located else None,
        category=category,
        fields={**usual, **fields},
    )


def of_nobody(hit: Hit) -> Hit:
    """Return a hit at a tie: nobody is to blame, and all of them are affected."""
    affected = tuple(sorted({*hit.members, *hit.affected}))
    return replace(hit, members=(), affected=affected, names_culprit=False)


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


def cite_lines(lines: Iterable[LogLine]) -> tuple[Evidence, ...]:
    """Return the first few of some log lines as evidence."""
    return tuple(map(cite_line, itertools.islice(lines, MAX_QUOTES)))


def when_printed(line: LogLine) -> tuple[float, str, int]:
    """Return a key that sorts log lines by their time, those without one last."""
    return (latest(line.time), line.source.file, line.source.line or 0)


def cite_process(member: Member, words: str) -> Evidence:
    """Cite the process of a member, as it was seen last, with words for what it shows."""
    return cite(member.processes[-1].source, f"pid {member.pid}: {words}", member.rank)


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
