"""Ranks stand in one broadcast, and do not agree on the rank that sends."""

from __future__ import annotations

from collections import defaultdict

from whyhang.analyzer.case import Case
from whyhang.analyzer.describe import evidence_of, location_of, ranks_in_words, subject_fields
from whyhang.analyzer.match.stands import all_seen
from whyhang.analyzer.model import IN_DEFAULT_GROUP, ROOT_CLAIM, Claim, Record
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.signature import Hit


class RootsDiffer(Record):
    """Ranks take different ranks for the root of one broadcast, scatter, gather or reduce."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; those who differ from most are to blame, a tie blames nobody."""
        claims = [c for c in case.job.claims if c.about == ROOT_CLAIM and c.who.rank is not None]
        if len(claims) < 2 or case.picture.progress or case.picture.roots or not all_seen(case):
            return ()
        by_root: dict[str, list[Claim]] = defaultdict(list)
        for claim in claims:
            by_root[claim.value].append(claim)
        if len(by_root) < 2 or _are_groups(by_root):
            return ()
        sides = sorted(by_root.items(), key=lambda side: len(side[1]))
        most = len(sides[-1][1])
        odd = [c for _, side in sides if len(side) < most for c in side]
        if len(odd) * 2 >= len(claims):
            odd = []
        found = [case.job.member_of(claim.who) for claim in odd]
        members = tuple(sorted(member.id for member in found if member is not None))
        everyone = [case.job.member_of(claim.who) for claim in claims]
        affected = tuple(sorted({m.id for m in everyone if m is not None} - set(members)))
        shown = case.stands[(members or affected)[0]]
        words = "; ".join(_side(value, side) for value, side in sides[:4])
        return (
            Hit(
                members=members,
                affected=affected,
                names_culprit=bool(members),
                evidence=(
                    *(_quote(side[0]) for _, side in sides[:4]),
                    *evidence_of(case, shown)[:1],
                ),
                collective=Collective(op=claims[0].value.split()[0], others=words),
                location=location_of(case, shown),
                fields={**subject_fields(case, [shown], affected), "sides": words},
            ),
        )


def _are_groups(by_root: dict[str, list[Claim]]) -> bool:
    """Tell whether these may be several groups, each in a broadcast of its own.

    In the default group they are not, and a rank alone is no group that waits.
    """
    if sum(value.endswith(IN_DEFAULT_GROUP) for value in by_root) > 1:
        return False
    return all(
        len(side) > 1 and any(str(claim.who.rank) == value.split()[1] for claim in side)
        for value, side in by_root.items()
    )


def roots_differ() -> RootsDiffer:
    """Ask whether ranks disagree on the root of the call that they stand in."""
    return RootsDiffer()


def _side(value: str, side: list[Claim]) -> str:
    op, root = value.split()[:2]
    way = "to" if op in {"gather", "reduce"} else "from"
    ranks = [claim.who.rank for claim in side if claim.who.rank is not None]
    return f"{ranks_in_words(ranks)} {op} {way} rank {root}"


def _quote(claim: Claim) -> Evidence:
    return Evidence(
        source=claim.source.file,
        line=claim.source.line,
        rank=claim.who.rank,
        quote=f"root of the call in its stack: {claim.value}",
    )
