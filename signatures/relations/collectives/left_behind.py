"""Some ranks go on step by step, and a rank waits in a call that they did not make.

Groups of a mesh hold up only those that are in them: a rank that calls a collective of its row
alone (a log line, a norm, a gather below ``if rank == last``) waits for ever, ranks of its column
wait for it, and the other column goes on. The counters of their loops tell who stayed behind first.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LoopCounter
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.progress import Counter
from whyhang.analyzer.report import Evidence


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the waiting ranks whose loops counted least, if others count on."""
    left = queries.left_behind(case)
    if left is None:
        return
    behind = [case.states[number] for number in left.behind]
    others = tuple(number for number in left.waiting if number not in left.behind)
    fields = queries.subject_fields(case, behind, others)
    fields |= {
        "ahead": case.names(left.ahead),
        "have": "have" if len(left.ahead) > 1 else "has",
        "step": f"{left.counter[0]}={left.step}",
        "later": f"{left.counter[0]}={left.last}",
    }
    yield Hit(
        members=left.behind,
        affected=others or left.ahead,
        evidence=(
            *(_cite(case, number, left.counter) for number in (left.behind[0], left.ahead[0])),
            *queries.evidence_of(case, behind[0])[:1],
        ),
        names_culprit=len(behind) < len(left.ahead) + len(others),
        collective=queries.call_of(case, left.behind),
        location=queries.location_of(case, behind[0]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="left-behind",
    category="collective-mismatch",
    level="program",
    title="{who} {waits} at {step} {does}{at}, and {ahead} {have} gone on to {later} without it",
    when=when,
    means=(
        "{ahead} {have} not made the call that {who} {is} in, and {have} gone on: they will not "
        "come to it any more."
    ),
    confidence="strong",
    remedies=(
        "Make that call on every rank of its group or on none; a mesh has one for each dimension.",
    ),
    next_steps=("TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",),
)


def _cite(case: Case, number: int, variable: Counter) -> Evidence:
    member = case.member(number)
    of = [c for c in case.job.of(LoopCounter) if case.job.member_of(c.who) is member]
    mine = [c for c in of if (c.name, c.function, c.file) == variable]
    values = " and then ".join(str(value) for value in dict.fromkeys(c.value for c in mine))
    words = f"{variable[0]} in {variable[1]} ({variable[2]}) is {values}"
    return Evidence(source=mine[0].source.file, rank=member.rank, quote=words)
