"""Ranks join worlds of different sizes, or one of more ranks than were started."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import InitArguments, Source, counted, ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.queries.hits import cite_environ
from whyhang.analyzer.queries.startup.store_place import is_loopback
from whyhang.analyzer.queries.waits.states import is_starting, waiters_for
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def _environ_differs(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that were started with another WORLD_SIZE, while the job starts.

    The fewest are blamed, a tie names nobody.
    """
    if not is_starting(case):
        return
    values = {
        member.id: member.processes[-1].environ["WORLD_SIZE"]
        for member in case.job.members
        if member.processes and "WORLD_SIZE" in member.processes[-1].environ
    }
    counts = Counter(values.values()).most_common()
    if len(counts) < 2:
        return
    usual, most = counts[0]
    tie = counts[1][1] == most
    odd = tuple(number for number, value in values.items() if value != usual)
    shown = [case.member(number) for number in odd[:3]]
    shown.append(next(case.member(n) for n, value in values.items() if value == usual))
    fields = subject_fields(case, [case.states[n] for n in odd], waiters_for(case))
    fields |= {
        "theirs": f"WORLD_SIZE={values[odd[0]]}",
        "usual": f"WORLD_SIZE={usual}",
    }
    evidence = [cite_environ(member.processes[-1], ("WORLD_SIZE",)) for member in shown]
    yield Hit(
        members=odd,
        affected=tuple(n for n in waiters_for(case) if n not in odd),
        evidence=(*evidence, *evidence_of(case, case.states[odd[0]])[:1]),
        names_culprit=not tie,
        location=location_of(case, case.states[odd[0]]),
        fields=fields,
    )


def _joins_differ(case: Case) -> Iterator[Hit]:
    """Yield one hit for members whose call was given another world size than most.

    A tie names nobody.
    """
    sizes = {number: size for number, (size, _) in _given(case).items()}
    if len(set(sizes.values())) < 2:
        return
    for member in case.job.members:  # who is through its call was started with this one
        size = member.processes[-1].environ.get("WORLD_SIZE", "") if member.processes else ""
        if size.isdecimal():
            sizes.setdefault(member.id, int(size))
    counts = Counter(sizes.values()).most_common()
    if len(counts) < 2 or case.graph.progress:
        return
    usual, most = counts[0]
    odd = tuple(number for number, size in sizes.items() if size != usual)
    others = tuple(number for number in waiters_for(case) if number not in odd)
    fields = subject_fields(case, [case.states[number] for number in odd], others)
    fields |= {"theirs": str(sizes[odd[0]]), "usual": str(usual)}
    shown = (*odd[:3], *(number for number in sizes if number not in odd))
    yield Hit(
        members=odd,
        affected=others,
        names_culprit=counts[1][1] != most,
        evidence=(
            *(_cite_size(case, number, sizes[number]) for number in shown[:5]),
            *evidence_of(case, case.states[odd[0]])[:1],
        ),
        location=location_of(case, case.states[odd[0]]),
        fields=fields,
    )


def _joins_too_many(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that nobody is, where all who came join a world of more.

    Said only where nobody else can have come: the store has counted no more clients, or the
    place of the meeting is on this host alone.
    """
    given = _given(case)
    sizes = {size for size, _ in given.values()}
    graph = case.graph
    starting = bool(graph.operations) and all(m.kind is WaitKind.INIT for m in graph.operations)
    if len(sizes) != 1 or not starting or graph.lagging or graph.progress or case.job.missing:
        return
    size = sizes.pop()
    here = {member.rank for member in case.job.members}
    missing = tuple(rank for rank in range(size) if rank not in here)
    if not missing or None in here or not _all_came(case):
        return
    states = [case.states[number] for number in given]
    fields = subject_fields(case, states[:1], waiters_for(case))
    fields |= {
        "who": ranks_in_words(missing),
        "has": "have" if len(missing) > 1 else "has",
        "size": str(size),
        "count": str(len(here)),
    }
    yield Hit(
        ranks=missing,
        affected=tuple(waiters_for(case)),
        evidence=tuple(_cite_size(case, number, size) for number in list(given)[:4]),
        location=location_of(case, states[0]),
        fields=fields,
    )


def _given(case: Case) -> dict[int, tuple[int, Source]]:
    """Return the world sizes that the calls of members were given, by member."""
    sizes: dict[int, tuple[int, Source]] = {}
    for call in case.job.of(InitArguments):
        member = case.job.member_of(call.who)
        if member is not None and call.world_size is not None:
            sizes.setdefault(member.id, (call.world_size, call.source))
    return sizes


def _all_came(case: Case) -> bool:
    places = [
        call.address
        for call in case.job.of(InitArguments)
        if call.address is not None and case.job.member_of(call.who) is not None
    ]
    views = [view for view in case.job.stores if view.outcome == "answered"]
    here = len(case.job.members)
    by_place = any(clients(view) == here for view in views)
    by_place |= any(view.processes == here and not view.repeated for view in case.job.files)
    return by_place or (bool(places) and all(is_loopback(place.host) for place in places))


def _cite_size(case: Case, number: int, size: int) -> Evidence:
    member = case.member(number)
    _, source = _given(case).get(number) or (size, member.processes[-1].source)
    words = f"{member.name} (pid {member.pid}) joins a world of {counted(size, 'rank')}"
    return cite(source, words, member.rank)


def world_sizes(
    case: Case, side: Literal["environments-differ", "calls-differ", "too-many"]
) -> Iterable[Hit]:
    """Yield one hit for ranks whose world sizes differ, or are of more ranks than were started."""
    sides = {
        "environments-differ": _environ_differs,
        "calls-differ": _joins_differ,
        "too-many": _joins_too_many,
    }
    return sides[side](case)
