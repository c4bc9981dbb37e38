"""Matchers over ranks of which there is no process, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import MissingRank
from whyhang.analyzer.match.states import OWN, kinds_of, waiters_for
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import Scope, WaitKind
from whyhang.analyzer.wording.describe import (
    call_of,
    evidence_of,
    ranks_in_words,
    subject_fields,
)


class Absent(Record):
    """A rank should run on a host that was looked at, and no living process is it.

    ``starting``: only while the others are still in init_process_group (or only after).
    """

    starting: bool | None = None

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for all ranks that are gone."""
        starting = any(m.kind is WaitKind.INIT for m in case.graph.operations)
        # a size that is too large says nothing of a job whose ranks have met nevertheless
        gone = tuple(lost for lost in case.job.missing if starting or not lost.beyond)
        if not gone or (self.starting is not None and self.starting is not starting):
            return ()
        stores = (s.member for s in case.states if WaitKind.STORE in kinds_of(s))
        waiters = tuple(sorted({*waiters_for(case), *stores}))
        if not waiters and case.states and all(_on_its_own(state) for state in case.states):
            return ()  # who is gone has ended, and nobody waits for it
        ranks = [lost.rank for lost in gone]
        members = tuple(m.id for m in case.job.members if m.rank in ranks)
        evidence = [
            Evidence(source=lost.source.file, quote=lost.quote, rank=None) for lost in gone[:4]
        ]
        for number in waiters[:2]:
            evidence += evidence_of(case, case.states[number])[:1]
        fields = subject_fields(case, [], waiters)
        fields["who"] = ranks_in_words(ranks)
        fields["is"], fields["has"] = ("are", "have") if len(ranks) > 1 else ("is", "has")
        fields["do"] = "do" if len(ranks) > 1 else "does"
        fields["does"] = f"no process of {'them' if len(ranks) > 1 else 'it'} runs" + _where_from(
            gone
        )
        return (
            Hit(
                members=members,
                ranks=tuple(ranks),
                affected=waiters,
                evidence=tuple(evidence),
                collective=call_of(case, waiters),
                fields=fields,
            ),
        )


def _on_its_own(state: RankState) -> bool:
    """Tell whether it is known of a member that it waits for no other rank."""
    place = state.place
    return (
        state.status in OWN and place is not None and place.scope not in {Scope.RANKS, Scope.MAYBE}
    )


def _where_from(gone: Iterable[MissingRank]) -> str:
    """Name the hosts that should run the missing ranks, and what says so."""
    gone = tuple(gone)
    hosts = sorted({lost.host for lost in gone if lost.host})
    quotes = dict.fromkeys(lost.quote for lost in gone)
    return (f" on {', '.join(hosts)}" if hosts else "") + f" ({'; '.join(list(quotes)[:2])})"


def absent(*, starting: bool | None = None) -> Absent:
    """Ask for ranks that should be there and are not; see ``Absent``."""
    return Absent(starting=starting)
