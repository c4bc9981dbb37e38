"""A rank's own lines part from those of the others: it is behind, or in a phase of its own.

Programs print what they do, each in words of its own: "opening shard 12", "capturing graphs",
"step 118". Ranks of one role print the same lines. The rank whose lines end before those of the
others, or that goes on to something else, is where to look, and the first line that it lacks says
what it did not do. Nothing shows that the job hangs, so this is a possibility.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Signature, Status
from whyhang.analyzer.rank_state.last_phase import LastPhase

LONGEST = 80  # characters of a line in a title


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for each rank whose own lines part from the others', if it is in no call."""
    for state in case.states:
        phase = state.phase
        if phase is None or state.status not in {Status.UNSEEN, Status.RUNNING}:
            continue
        evidence = [queries.cite(phase.source, phase.line.text, phase.rank)]
        did = f"the others ({queries.ranks_in_words(phase.others)}) print nothing like it there"
        if phase.lacks is not None and phase.lacks_source is not None:
            evidence.append(queries.cite(phase.lacks_source, phase.lacks.text))
            did = f"the others went on to '{phase.lacks.text[:LONGEST]}'"
        yield Hit(
            members=(state.member,),
            affected=tuple(
                s.member for s in case.states if case.member(s.member).rank in phase.others
            ),
            evidence=tuple(evidence),
            strength=CLEAR if case.graph.waiting else _strength(phase),
            fields={
                **queries.subject_fields(case, [state], ()),
                "line": phase.line.text[:LONGEST],
                "did": did,
            },
            at=phase.line.time,
        )


def _strength(phase: LastPhase) -> float:
    if not phase.at_work:
        return GUESSED
    return CLEAR if phase.lacks is not None else INCOMPLETE


SIGNATURE = Signature(
    id="last-phase-differs",
    category="missing-rank-in-collective",
    level="wait",
    title="The last line of {who} is '{line}'; {did}",
    when=when,
    means=(
        "The logs say nothing of why. Up to there {who} printed the same lines as the others, so "
        "that is where it most likely stays, or ended; the others can only wait for it."
    ),
    confidence="possible",
    remedies=("Find in the program what {who} does behind the line '{line}'.",),
    next_steps=("py-spy dump --pid {pid}  # of {who}, while it hangs",),
)
