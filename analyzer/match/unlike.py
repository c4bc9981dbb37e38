"""Matchers over what must be the same on all ranks: versions and settings."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import CallState, Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.fingerprints import Difference, difference, leading, told_of
from whyhang.analyzer.report import Evidence

SHOWN = 3


class Unlike(Record):
    """Ranks differ in one of these; the fewest are blamed, a tie names nobody.

    ``keys`` are "torch", "nccl", "cuda", "driver", the name of a library, or of a variable of
    the environment. ``numbers``: of versions, so many numbers count (0: all of the text).
    """

    keys: tuple[str, ...]
    numbers: int = 0

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for each key in which ranks differ, if the job stands still."""
        if not _stands(case):
            return ()
        same = leading(self.numbers) if self.numbers else str
        told = [difference(case, key, same) for key in told_of(case, self.keys)]
        return tuple(
            _hit(case, each) for each in told if each is not None and not _talked(case, each)
        )


def _talked(case: Case, told: Difference) -> bool:
    """Tell whether NCCL of both kinds has completed calls together, so that they get on."""
    if told.key != "nccl":
        return False
    odd = set(case.ranks(value.member for value in told.odd))
    usual = set(case.ranks(value.member for value in told.most))
    return any(
        any(line.completed.get(rank) for rank in odd)
        and any(line.completed.get(rank) for rank in usual)
        for line in case.graph.calls.groups
        if line.space == "torch"
    )


def unlike(*keys: str, numbers: int = 0) -> Unlike:
    """Ask for ranks that differ in one of ``keys``; see ``Unlike``."""
    return Unlike(keys=keys, numbers=numbers)


def _stands(case: Case) -> bool:
    """Tell whether some rank waits for others: a job that goes on does not mind."""
    if case.graph.progress:
        return False
    started = any(
        call.op == "comm_init" and call.state is CallState.STARTED
        for track in case.job.tracks
        for call in track.calls
    )
    graph = case.graph
    return bool(graph.waiting or graph.maybe or case.graph.calls.waits or started)


def _hit(case: Case, told: Difference) -> Hit:
    odd = tuple(value.member for value in told.odd)
    shown = (*told.odd[:SHOWN], told.most[0])
    return Hit(
        members=odd,
        affected=tuple(value.member for value in told.most),
        names_culprit=not told.tie,
        evidence=tuple(
            Evidence(
                source=value.source.file,
                line=value.source.line,
                rank=case.member(value.member).rank,
                quote=f"{told.key}: {value.text or 'not set'}",
            )
            for value in shown
        ),
        fields={
            "key": told.key,
            "theirs": told.odd[0].text or "not set",
            "usual": told.most[0].text or "not set",
        },
    )
