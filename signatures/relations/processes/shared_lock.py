"""Ranks wait for a lock that processes share, and its holder waits for them.

A ``multiprocessing`` lock around work that holds a collective: the rank that got the lock waits
in the barrier for the others, and the others wait for the lock. Nothing on the machine tells who
holds such a lock; where all ranks but one want it, that one does.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that want the lock at one place.

    Where all ranks but one want it and this one waits for them, it is the one.
    """
    for hit in queries.lagging(case, WaitKind.LOCK, alone=True):
        wanting = [case.states[number] for number in hit.members]
        if len(wanting) < 2 or not all(queries.is_shared_lock(state.place) for state in wanting):
            continue
        fields = {**hit.fields, "wanting": case.names(hit.members)}
        one = hit.affected if len(hit.affected) + len(wanting) == len(case.states) else ()
        if len(one) == 1:
            holder = case.states[one[0]]
            fields |= queries.subject_fields(case, [holder], hit.members)
            fields["says"] = (
                f"{fields['who']} is {fields['does']}{fields['at']}, and so has the lock that "
                f"{fields['wanting']} wait for"
            )
            evidence = (*queries.evidence_of(case, holder)[:1], *hit.evidence)
            location = queries.location_of(case, holder)
            yield replace(
                hit,
                members=one,
                affected=hit.members,
                fields=fields,
                evidence=evidence,
                location=location,
                strength=INDIRECT,
            )
        else:
            fields["says"] = (
                f"{fields['wanting']} wait for a lock that processes share{fields['at']}"
                f"{fields['waiting']}"
            )
            yield replace(hit, fields=fields, names_culprit=False)


SIGNATURE = Signature(
    id="shared-lock",
    category="gil-or-lock-deadlock",
    level="program",
    title="{says}",
    when=when,
    means=(
        "{says}. Unless a process outside the job has it, its holder is a rank, and every rank "
        "that does not want the lock waits for those that do."
    ),
    confidence="strong",
    remedies=(
        "Release the lock before the collective: no collective, barrier or send inside the lock.",
        "Let one rank do the guarded work and the others wait in a barrier, without the lock.",
    ),
    next_steps=("py-spy dump --pid {pid}  # is the call inside a with of the lock?",),
)
