"""Lines of a program's own that ranks do not all print: some are absent, or in another phase."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogTail, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import members_of
from whyhang.analyzer.rank_state.from_logs.last_phase import LastPhase
from whyhang.analyzer.rank_state.from_logs.unspoken import unspoken
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import cite
from whyhang.analyzer.wording.title_fields import subject_fields

LONGEST = 80  # characters of a line in a title


def _absent_from_lines(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are absent from what all others print."""
    if any(member.dumps for member in case.job.members) or case.graph.progress:
        return
    absent = unspoken(case.job.of(LogTail), case.job.world_size)
    if absent is None:
        return
    members, unseen = members_of(case, absent.ranks)
    others, _ = members_of(case, absent.others)
    yield Hit(
        members=members,
        ranks=unseen,
        affected=others,
        evidence=(cite(absent.source, absent.line.text, absent.others[-1]),),
        strength=INCOMPLETE,
        fields={
            "who": ranks_in_words(absent.ranks),
            "others": ranks_in_words(absent.others),
            "line": absent.line.text[:LONGEST],
        },
        at=absent.line.time,
    )


def _last_phase_differs(case: Case) -> Iterator[Hit]:
    """Yield one hit for each rank whose own lines part from the others', if it is in no call."""
    for state in case.states:
        phase = state.phase
        if phase is None or state.status not in {Status.UNSEEN, Status.RUNNING}:
            continue
        evidence = [cite(phase.source, phase.line.text, phase.rank)]
        did = f"the others ({ranks_in_words(phase.others)}) print nothing like it there"
        if phase.lacks is not None and phase.lacks_source is not None:
            evidence.append(cite(phase.lacks_source, phase.lacks.text))
            did = f"the others went on to '{phase.lacks.text[:LONGEST]}'"
        yield Hit(
            members=(state.member,),
            affected=tuple(
                s.member for s in case.states if case.member(s.member).rank in phase.others
            ),
            evidence=tuple(evidence),
            strength=CLEAR if case.graph.waiting else _strength(phase),
            fields={
                **subject_fields(case, [state], ()),
                "line": phase.line.text[:LONGEST],
                "did": did,
            },
            at=phase.line.time,
        )


def _strength(phase: LastPhase) -> float:
    if not phase.at_work:
        return GUESSED
    return CLEAR if phase.lacks is not None else INCOMPLETE


What = Literal["absent", "other-phase"]

_SIDES: dict[What, Callable[[Case], Iterable[Hit]]] = {
    "absent": _absent_from_lines,
    "other-phase": _last_phase_differs,
}


def own_lines_show(case: Case, what: What) -> Iterable[Hit]:
    """Yield hits for ranks that lack lines which the others print, or end in others."""
    return _SIDES[what](case)
