"""Ranks stand in one broadcast, and do not agree on the rank that sends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, RootArgument
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.match.states import all_seen
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.wording.describe import (
    evidence_of,
    location_of,
    ranks_in_words,
    subject_fields,
)


class RootsDiffer(Record):
    """Ranks take different ranks for the root of one broadcast, scatter, gather or reduce."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; those who differ from most are to blame, a tie blames nobody."""
        calls = [call for call in case.job.of(RootArgument) if call.who.rank is not None]
        if len(calls) < 2 or case.graph.progress or case.graph.lagging or not all_seen(case):
            return ()
        by_root: dict[str, list[RootArgument]] = defaultdict(list)
        for call in calls:
            by_root[_words(call)].append(call)
        sides = sorted(by_root.values(), key=len)
        if len(sides) < 2 or _are_groups(sides):
            return ()
        most = len(sides[-1])
        odd = [call for side in sides if len(side) < most for call in side]
        if len(odd) * 2 >= len(calls):
            odd = []
        found = [case.job.member_of(call.who) for call in odd]
        members = tuple(sorted(member.id for member in found if member is not None))
        everyone = [case.job.member_of(call.who) for call in calls]
        affected = tuple(sorted({m.id for m in everyone if m is not None} - set(members)))
        shown = case.states[(members or affected)[0]]
        words = "; ".join(_side(side) for side in sides[:4])
        return (
            Hit(
                members=members,
                affected=affected,
                names_culprit=bool(members),
                evidence=(
                    *(_quote(side[0]) for side in sides[:4]),
                    *evidence_of(case, shown)[:1],
                ),
                collective=Collective(op=calls[0].op, others=words),
                location=location_of(case, shown),
                fields={**subject_fields(case, [shown], affected), "sides": words},
            ),
        )


def _are_groups(sides: Sequence[Sequence[RootArgument]]) -> bool:
    """Tell whether these may be several groups, each in a broadcast of its own.

    In the default group they are not, and a rank alone is no group that waits.
    """
    if sum(side[0].in_default_group for side in sides) > 1:
        return False
    return all(len(side) > 1 and any(call.who.rank == call.root for call in side) for side in sides)


def roots_differ() -> RootsDiffer:
    """Ask whether ranks disagree on the root of the call that they stand in."""
    return RootsDiffer()


def _side(side: Sequence[RootArgument]) -> str:
    way = "to" if side[0].op in {"gather", "reduce"} else "from"
    ranks = [call.who.rank for call in side if call.who.rank is not None]
    return f"{ranks_in_words(ranks)} {side[0].op} {way} rank {side[0].root}"


def _quote(call: RootArgument) -> Evidence:
    return Evidence(
        source=call.source.file,
        line=call.source.line,
        rank=call.who.rank,
        quote=f"root of the call in its stack: {_words(call)}",
    )


def _words(call: RootArgument) -> str:
    return f"{call.op} {call.root}{' in the default group' if call.in_default_group else ''}"
