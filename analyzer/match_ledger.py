"""Matchers over the collective ledger: recorder dumps, watchdog lines, fingerprints, counters."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.describe import ranks_in_words
from whyhang.analyzer.graph import CallRef
from whyhang.analyzer.ledger import Judgement, Verdict
from whyhang.analyzer.model import Frame, Record, Who
from whyhang.analyzer.report import Collective, Evidence, Location
from whyhang.analyzer.signature import Hit
from whyhang.analyzer.usercode import short

MAX_SOURCES = 6


class Ledger(Record):
    """The ledger came to one of these verdicts, and no other verdict explains it."""

    verdicts: tuple[Verdict, ...]

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit per verdict."""
        return tuple(_hit(case, judgement) for judgement in case.ledger.of(*self.verdicts))


def ledger(*verdicts: Verdict) -> Ledger:
    """Ask for verdicts of the collective ledger."""
    return Ledger(verdicts=verdicts)


def _hit(case: Case, judgement: Judgement) -> Hit:
    members, missing = _members(case, judgement.culprits)
    affected, _ = _members(case, judgement.affected or judgement.waiting)
    call = str(judgement.call) if judgement.call else "a collective"
    fields = {
        "who": ranks_in_words(judgement.culprits) if judgement.culprits else "no single rank",
        "is": "are" if len(judgement.culprits) > 1 else "is",
        "has": "have" if len(judgement.culprits) > 1 else "has",
        "call": call,
        "others": ranks_in_words(judgement.waiting) if judgement.waiting else "the others",
        "waiting": f" while {ranks_in_words(judgement.waiting)} wait in {call}"
        if judgement.waiting
        else "",
        "does": _last(judgement),
        "at": f" at {_site(judgement.site)}" if judgement.site else "",
        "where": _site(judgement.site) if judgement.site else "its last call",
        "sides": _sides(judgement),
        "says": judgement.says,
    }
    return Hit(
        members=members,
        ranks=missing,
        affected=affected,
        evidence=_evidence(judgement),
        strength=0.85 if judgement.inferred or judgement.by_history else 1.0,
        names_culprit=bool(judgement.culprits) and not judgement.tie,
        collective=_collective(judgement),
        location=_location(judgement.site),
        fields=fields,
    )


def _members(case: Case, ranks: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split ranks into members and those that are none."""
    found, missing = [], []
    for rank in ranks:
        member = case.job.member_of(Who(rank=rank))
        if member is None:
            missing.append(rank)
        else:
            found.append(member.id)
    return tuple(sorted(found)), tuple(missing)


def _last(judgement: Judgement) -> str:
    if judgement.missed is not None:
        return f"its last call was {judgement.missed}"
    return "it has not enqueued the call"


def _sides(judgement: Judgement) -> str:
    if not judgement.sides:
        return judgement.says
    return " and ".join(
        f"{ranks_in_words(side.ranks)} {side.says}"
        + (f" ({_site(side.site)})" if side.site else "")
        for side in judgement.sides
    )


def _site(frame: Frame | None) -> str:
    if frame is None:
        return "an unknown place"
    line = f":{frame.line}" if frame.line is not None else ""
    return f"{frame.function} ({short(frame.file)}{line})"


def _location(frame: Frame | None) -> Location | None:
    if frame is None:
        return None
    return Location(file=short(frame.file), line=frame.line, function=frame.function)


def _collective(judgement: Judgement) -> Collective | None:
    call: CallRef | None = judgement.call
    if call is None or call.op is None:
        return None
    others = None
    if len(judgement.sides) > 1:
        others = "; ".join(f"{ranks_in_words(s.ranks)} {s.says}" for s in judgement.sides)
    return Collective(op=call.op, group=call.group or None, seq=call.seq, others=others)


def _evidence(judgement: Judgement) -> tuple[Evidence, ...]:
    """Quote each side where there are sides, else the judgement with the files it rests on."""
    found = [
        Evidence(
            source=side.source.file,
            line=side.source.line,
            rank=side.ranks[0] if side.ranks else None,
            quote=f"{side.call}: {side.says}",
        )
        for side in judgement.sides
        if side.source is not None
    ]
    for source in judgement.sources[:MAX_SOURCES]:
        if all(piece.source != source.file for piece in found):
            found.append(Evidence(source=source.file, line=source.line, quote=judgement.says))
    return tuple(found)
