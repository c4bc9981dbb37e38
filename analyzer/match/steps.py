"""Ranks stand in one call, but not in one step of the loop around it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LoopCounter, Record
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.match.states import WAITERS, all_seen
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.wording.describe import evidence_of, location_of, subject_fields

_Variable = tuple[str, str, str]  # name, function and file of what counts
_Counts = dict[_Variable, int]


class InAnotherStep(Record):
    """All ranks wait in collectives, and the counters of their loops fall into two sides."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; the fewer are to blame, a tie blames nobody."""
        graph = case.graph
        whole = all_seen(case) and not case.job.absent and not case.job.missing
        if graph.progress or graph.lagging or not whole or len(case.states) < 2:
            return ()
        if any(s.status not in WAITERS or s.motion.moved is not Moved.STILL for s in case.states):
            return ()
        counts = _counts(case)
        differing = _differing(counts, {s.member: case.member(s.member).rank for s in case.states})
        if len(counts) != len(case.states) or not differing:
            return ()
        sides: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, known in counts.items():
            sides[tuple(known[what] for what in differing)].append(number)
        if len(sides) != 2:
            return ()
        few, many = sorted(sides, key=lambda side: len(sides[side]))
        tie = len(sides[few]) == len(sides[many])
        members, affected = tuple(sorted(sides[few])), tuple(sorted(sides[many]))
        states = [case.states[number] for number in members]
        fields = subject_fields(case, states, affected)
        fields |= {"theirs": _words(differing, few), "usual": _words(differing, many)}
        meeting = next((m for m in graph.operations if members[0] in m.members), None)
        return (
            Hit(
                members=() if tie else members,
                affected=tuple(sorted((*members, *affected))) if tie else affected,
                names_culprit=not tie,
                strength=INCOMPLETE if tie else CLEAR,
                evidence=(
                    *(_quote(case, number) for number in (members[0], affected[0])),
                    *evidence_of(case, states[0])[:1],
                ),
                collective=Collective(op=meeting.op) if meeting is not None else None,
                location=location_of(case, states[0]),
                fields=fields,
            ),
        )


def in_another_step() -> InAnotherStep:
    """Ask for ranks in another step of the loop; see ``InAnotherStep``."""
    return InAnotherStep()


def _counts(case: Case) -> dict[int, _Counts]:
    found: dict[int, _Counts] = defaultdict(dict)
    for counter in case.job.of(LoopCounter):
        member = case.job.member_of(counter.who)
        if member is not None:
            variable = (counter.name, counter.function, counter.file)
            found[member.id].setdefault(variable, counter.value)
    return found


def _differing(counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]) -> list[_Variable]:
    """List what all ranks count and not all alike, without what only follows from their rank."""
    everyone = list(counts.values())
    common = [
        what for what in (everyone[0] if everyone else {}) if all(what in c for c in everyone)
    ]
    return [
        what
        for what in common
        if len({c[what] for c in everyone}) > 1 and not _by_rank(what, counts, ranks)
    ]


def _by_rank(
    what: _Variable, counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]
) -> bool:
    """Tell a counter that each rank may start with its own number: ``range(rank, end, world)``."""
    return len(what[0]) == 1 and all(
        ranks.get(number) is not None and (known[what] - (ranks[number] or 0)) % len(counts) == 0
        for number, known in counts.items()
    )


def _words(differing: list[_Variable], values: tuple[int, ...]) -> str:
    named = [f"{name}={value}" for (name, _, _), value in zip(differing, values, strict=True)]
    return ", ".join(dict.fromkeys(reversed(named[:3])))  # a function may be given the step


def _quote(case: Case, number: int) -> Evidence:
    member = case.member(number)
    counters = [c for c in case.job.of(LoopCounter) if case.job.member_of(c.who) is member]
    words = "; ".join(f"{c.name} in {c.function} ({c.file}) is {c.value}" for c in counters[:4])
    file = counters[0].source.file if counters else ""
    return Evidence(source=file, rank=member.rank, quote=words)
