"""Absent ranks: of which there is no process, though something says that they should run."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.records import MissingRank
from whyhang.analyzer.queries.states import OWN, is_starting, kinds_of, waiters_for
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import Scope, WaitKind
from whyhang.analyzer.wording.calls import call_of
from whyhang.analyzer.wording.evidence import evidence_of
from whyhang.analyzer.wording.title_fields import subject_fields


def absent(case: Case, *, starting: bool) -> tuple[Hit, ...]:
    """Return one hit for all ranks that should run on a host that was looked at, and do not.

    ``starting``: only while the others are still in init_process_group, or only after.
    """
    # a size that is too large says nothing of a job whose ranks have met nevertheless
    gone = [lost for lost in case.job.missing if starting or not lost.beyond]
    if not gone or starting is not is_starting(case):
        return ()
    stores = (s.member for s in case.states if WaitKind.STORE in kinds_of(s))
    waiters = tuple(sorted({*waiters_for(case), *stores}))
    if not waiters and case.states and all(map(_on_its_own, case.states)):
        return ()  # who is gone has ended, and nobody waits for it
    ranks = [lost.rank for lost in gone]
    evidence = [Evidence(source=lost.source.file, quote=lost.quote, rank=None) for lost in gone[:4]]
    for number in waiters[:2]:
        evidence += evidence_of(case, case.states[number])[:1]
    many = len(ranks) > 1
    fields = subject_fields(case, [], waiters) | {
        "who": ranks_in_words(ranks),
        "is": "are" if many else "is",
        "has": "have" if many else "has",
        "do": "do" if many else "does",
        "does": f"no process of {'them' if many else 'it'} runs{_where_from(gone)}",
    }
    hit = Hit(
        members=tuple(m.id for m in case.job.members if m.rank in ranks),
        ranks=tuple(ranks),
        affected=waiters,
        evidence=tuple(evidence),
        collective=call_of(case, waiters),
        fields=fields,
    )
    return (hit,)


def _on_its_own(state: RankState) -> bool:
    """Return whether it is known of a member that it waits for no other rank."""
    place = state.place
    return (
        state.status in OWN and place is not None and place.scope not in {Scope.RANKS, Scope.MAYBE}
    )


def _where_from(gone: list[MissingRank]) -> str:
    """Name the hosts that should run the missing ranks, and why some cannot run anywhere."""
    hosts = sorted({lost.host for lost in gone if lost.host})
    quotes = list(dict.fromkeys(lost.quote for lost in gone if lost.beyond))
    why = f" ({'; '.join(quotes[:2])})" if quotes else ""
    return (f" on {', '.join(hosts)}" if hosts else "") + why
