"""Lines that the ranks of a job print alike, with another value on one of them."""

import re
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import PrintedValue, SignOfLife, Topic, Variable, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.fingerprints import Value, compared
from whyhang.analyzer.queries.settings import SHOWN, hit_of, stands
from whyhang.analyzer.rank_state.log_ends import have_ended
from whyhang.analyzer.report import cite

LONGEST = 80  # characters of a line that stands in a title
SPOKEN = 0.75  # of the ranks print the line
AGREED: tuple[Topic, ...] = ("world", "version", "communicator")
"""What all ranks of a job have alike, so that two halves that differ do not match. Sizes and counts
may differ from group to group.
"""
_COMPLAINS = re.compile(r"NCCL WARN|[Tt]imed? ?out|ranks? .* (?:not|mismatch|differ)|[Mm]ismatch")


def printed_values_differ(case: Case, *topics: Topic) -> Iterator[Hit]:
    """Yield one hit for the first line in which one rank prints another value than all others.

    ``topics`` are what the line is about. Of two ranks nobody is named. Nothing where the job goes
    on, or where the values of several ranks differ: they are each rank's own then, or each group's.
    """
    if not (stands(case) or _failed(case) or _shows_no_work(case)):
        return
    lines: dict[str, dict[int, PrintedValue]] = defaultdict(dict)
    variables = {fact.source for fact in case.job.of(Variable)}  # have signatures of their own
    for fact in case.job.of(PrintedValue):
        member = case.job.member_of(fact.who)
        if fact.topic in topics and member is not None and fact.source not in variables:
            lines[fact.name][member.id] = fact
    for facts in lines.values():
        values = [Value(member=n, text=fact.value, source=fact.source) for n, fact in facts.items()]
        name = next(iter(facts.values())).name
        differ = compared(name, values) if len(values) >= SPOKEN * len(case.states) else None
        if differ is None or len({value.text for value in values}) > 2:
            continue
        is_agreed = next(iter(facts.values())).topic in AGREED
        if len(differ.odd) == 1 < len(differ.most) or (differ.tie and is_agreed):
            hit = hit_of(case, differ)
            quotes = tuple(
                cite(facts[value.member].source, facts[value.member].text, rank)
                for value in (*differ.odd[:SHOWN], differ.most[0])
                for rank in [case.member(value.member).rank]
            )
            line = facts[differ.odd[0].member].text[:LONGEST]
            yield replace(hit, evidence=quotes, fields={**hit.fields, "key": line})
            return


def _shows_no_work(case: Case) -> bool:
    """Return whether nothing tells of a step, a result or an end: the job never got to work."""
    return not (case.job.of(SignOfLife) or case.graph.progress or have_ended(case.job))


def _failed(case: Case) -> bool:
    """Return whether some rank ended by an error, or complains of another."""
    return any(exit_.exitcode or exit_.signal for exit_ in case.job.exits) or any(
        line.raised is not None or _COMPLAINS.search(line.text) for line in case.job.lines
    )
