"""Ranks that differ in what must be the same on all of them: versions and settings.

The fewest are blamed, a tie names nobody.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    CallState,
    LogTail,
    PrintedValue,
    SignOfLife,
    Source,
    Topic,
    Variable,
    replace,
)
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.fingerprints import (
    Difference,
    Value,
    compared,
    difference,
    known_keys,
    leading,
)
from whyhang.analyzer.queries.hits import LONGEST
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.rank_state.from_logs.log_ends import have_ended
from whyhang.analyzer.report import cite

SHOWN = 3


@query
def settings_differ(
    case: Case, *keys: str, numbers: int = 0, printed: bool = False
) -> Iterator[Hit]:
    """Yield one hit for each key in which ranks differ, if the job stands still.

    ``keys`` are "torch", "nccl", the name of a library, or of a variable of the environment.
    ``numbers``: of versions, so many numbers count (0: all of the text). ``printed``: settings
    that no job goes on with; who printed its environment need not be seen to wait.
    """
    if not (stands(case) or (printed and not case.job.of(SignOfLife))):
        return
    same = leading(numbers) if numbers else str
    if printed:
        names = {fact.name for fact in case.job.of(Variable)}
        keys = tuple(key for key in keys if key in names)
    for key in known_keys(case, keys):
        values = difference(case, key, same)
        if values is not None and not _talked(case, values):
            yield hit_of(case, values)
        elif printed:
            yield from _on_hosts_without_ranks(case, key)


def _on_hosts_without_ranks(case: Case, key: str) -> Iterator[Hit]:
    """Yield one hit for hosts of whose ranks nothing is known, and that printed other settings."""
    facts = [fact for fact in case.job.of(Variable) if fact.name == key]
    if any(fact.who.host is None or case.job.member_of(fact.who) for fact in facts):
        return
    by_host = {fact.who.host: fact for fact in facts}
    usual = Counter(fact.value for fact in by_host.values()).most_common(1)
    odd = [fact for fact in by_host.values() if fact.value != usual[0][0]]
    if odd:
        same = next(fact for fact in by_host.values() if fact.value == usual[0][0])
        yield Hit(
            names_culprit=False,
            evidence=tuple(
                cite(fact.source, f"{key}: {fact.value}") for fact in (*odd[:SHOWN], same)
            ),
            fields={
                "who": str(odd[0].who.host),
                "key": key,
                "theirs": odd[0].value,
                "usual": same.value,
            },
        )


def _talked(case: Case, values: Difference) -> bool:
    """Return whether NCCL of both kinds has completed calls together, so that they get on."""
    if values.key != "nccl":
        return False
    odd = set(case.ranks(value.member for value in values.odd))
    usual = set(case.ranks(value.member for value in values.most))
    return any(
        any(line.completed.get(rank) for rank in odd)
        and any(line.completed.get(rank) for rank in usual)
        for line in case.graph.calls.groups
        if line.space == "torch"
    )


def stands(case: Case) -> bool:
    """Return whether some rank waits for others: a job that goes on does not mind."""
    if case.graph.progress:
        return False
    started = any(
        call.op == "comm_init" and call.state is CallState.STARTED
        for track in case.job.tracks
        for call in track.calls
    )
    graph = case.graph
    return bool(graph.waiting or graph.maybe or case.graph.calls.waits or started)


def hit_of(case: Case, values: Difference) -> Hit:
    """Return the hit that names the fewest, or nobody where no value has a majority."""
    odd = tuple(value.member for value in values.odd)
    shown = (*values.odd[:SHOWN], values.most[0])
    return Hit(
        members=odd,
        affected=tuple(value.member for value in values.most),
        names_culprit=not values.tie,
        evidence=tuple(
            cite(
                value.source,
                f"{values.key}: {value.text or 'not set'}",
                case.member(value.member).rank,
            )
            for value in shown
        ),
        fields={
            "key": values.key,
            "theirs": values.odd[0].text or "not set",
            "usual": values.most[0].text or "not set",
        },
    )


SPOKEN = 0.75  # of the ranks print the line
AGREED: tuple[Topic, ...] = ("world", "version", "communicator")
"""What all ranks of a job have alike, so that two halves that differ do not match. Sizes and counts
may differ from group to group.
"""
_COMPLAINS = re.compile(r"NCCL WARN|[Tt]imed? ?out|ranks? .* (?:not|mismatch|differ)|[Mm]ismatch")

_MISMATCH = re.compile(
    r"(?i)mismatch|op\.preamble|different (?:size|shape|number)|shapes?\b.*\binvalid|truncat"
    r"|(?:sizes?|length|shape|elements?)\b.{0,40}\b(?:expected|got|vs|must match|differ)"
)
"""Words of ranks that do not fit together."""
_OF_MPI = re.compile(r"MPI|\(rank \d+ in comm ")


@query
def printed_values_differ(case: Case, *topics: Topic) -> Iterator[Hit]:
    """Yield one hit for the first line in which one rank prints another value than all others.

    ``topics`` are what the line is about. Of two ranks nobody is named. Nothing where the job goes
    on, or where the values of several ranks differ: they are each rank's own then, or each group's.
    """
    failed = any(row.exitcode or row.signal for row in case.job.exits) or any(
        line.raised is not None or _COMPLAINS.search(line.text) for line in case.job.lines
    )
    at_work = case.job.of(SignOfLife) or case.graph.progress or have_ended(case.job)
    if at_work and not (stands(case) or failed):
        return
    complaints = [line.text for line in case.job.lines if _MISMATCH.search(line.text)]
    if "settings" in topics and not complaints:
        return  # roles have settings of their own
    lines: dict[str, dict[int, PrintedValue]] = defaultdict(dict)
    variables = {fact.source for fact in case.job.of(Variable)}  # have signatures of their own
    own = _in_own_lines(case) if "settings" in topics else ()
    for fact in (*case.job.of(PrintedValue), *own):
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
            of_mpi = "settings" in topics and any(map(_OF_MPI.search, complaints))
            category = "mpi-mismatch" if of_mpi else ""
            fields = {**hit.fields, "key": line}
            yield replace(hit, evidence=quotes, fields=fields, category=category)
            return


def _in_own_lines(case: Case) -> Iterator[PrintedValue]:
    """Yield what ranks put into lines of their own that nearly all of them print: one by one."""
    for tail in case.job.of(LogTail):
        for line in tail.lines:
            for place, value in enumerate(line.values):
                yield PrintedValue(
                    who=tail.who,
                    source=Source(file=tail.source.file, line=line.number),
                    name=f"{line.template} {place}",
                    value=value,
                    topic="settings",
                    text=line.text,
                )
