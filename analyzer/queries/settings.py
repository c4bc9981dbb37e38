"""Ranks that differ in what must be the same on all of them: versions and settings.

The fewest are blamed, a tie names nobody.
"""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import CallState, SignOfLife, Variable
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.fingerprints import Difference, difference, known_keys, leading
from whyhang.analyzer.report import cite

SHOWN = 3


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
