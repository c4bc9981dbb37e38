"""Matchers over what ranks join: the world size and rank that their calls were given."""

from __future__ import annotations

import ipaddress
from collections import Counter

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Address, InitArguments, Record, Source
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.store_keys import clients
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import (
    evidence_of,
    location_of,
    ranks_in_words,
    subject_fields,
)


class JoinsDiffer(Record):
    """The calls of some ranks were given another world size than those of the rest."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the members that differ from the most; a tie names nobody."""
        sizes = {number: size for number, (size, _) in _world_sizes(case).items()}
        if len(set(sizes.values())) < 2:
            return ()
        for member in case.job.members:  # who is through its call was started with this one
            told = member.processes[-1].environ.get("WORLD_SIZE", "") if member.processes else ""
            if told.isdecimal():
                sizes.setdefault(member.id, int(told))
        counts = Counter(sizes.values()).most_common()
        if len(counts) < 2 or case.graph.progress:
            return ()
        usual, most = counts[0]
        odd = tuple(number for number, size in sizes.items() if size != usual)
        others = tuple(number for number in waiters_for(case) if number not in odd)
        fields = subject_fields(case, [case.states[number] for number in odd], others)
        fields |= {"theirs": str(sizes[odd[0]]), "usual": str(usual)}
        shown = (*odd[:3], *(number for number in sizes if number not in odd))
        return (
            Hit(
                members=odd,
                affected=others,
                names_culprit=counts[1][1] != most,
                evidence=(
                    *(_quote(case, number, sizes[number]) for number in shown[:5]),
                    *evidence_of(case, case.states[odd[0]])[:1],
                ),
                location=location_of(case, case.states[odd[0]]),
                fields=fields,
            ),
        )


def joins_differ() -> JoinsDiffer:
    """Ask for ranks that join a world of another size than the rest."""
    return JoinsDiffer()


class JoinsTooMany(Record):
    """All who came stand in init_process_group, and they join a world of more ranks than came.

    Said only where nobody else can have come: the store has counted no more clients, or the
    place of the meeting is on this host alone.
    """

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the ranks that nobody is."""
        given = _world_sizes(case)
        sizes = {size for size, _ in given.values()}
        graph = case.graph
        starting = bool(graph.operations) and all(m.kind is WaitKind.INIT for m in graph.operations)
        if len(sizes) != 1 or not starting or graph.lagging or graph.progress or case.job.missing:
            return ()
        size = sizes.pop()
        here = {member.rank for member in case.job.members}
        missing = tuple(rank for rank in range(size) if rank not in here)
        if not missing or None in here or not _all_came(case):
            return ()
        states = [case.states[number] for number in given]
        fields = subject_fields(case, states[:1], waiters_for(case))
        fields |= {
            "who": ranks_in_words(missing),
            "has": "have" if len(missing) > 1 else "has",
            "size": str(size),
            "count": str(len(here)),
        }
        return (
            Hit(
                ranks=missing,
                affected=tuple(waiters_for(case)),
                evidence=tuple(_quote(case, number, size) for number in list(given)[:4]),
                location=location_of(case, states[0]),
                fields=fields,
            ),
        )


def joins_too_many() -> JoinsTooMany:
    """Ask for ranks that are counted and were never started; see ``JoinsTooMany``."""
    return JoinsTooMany()


def _world_sizes(case: Case) -> dict[int, tuple[int, Source]]:
    """Give the world sizes that the calls of members were given, by member."""
    found: dict[int, tuple[int, Source]] = {}
    for call in case.job.of(InitArguments):
        member = case.job.member_of(call.who)
        if member is not None and call.world_size is not None:
            found.setdefault(member.id, (call.world_size, call.source))
    return found


def _all_came(case: Case) -> bool:
    places = [
        call.address
        for call in case.job.of(InitArguments)
        if call.address is not None and case.job.member_of(call.who) is not None
    ]
    views = [view for view in case.job.stores if view.outcome == "answered"]
    here = len(case.job.members)
    counted = any(clients(view) == here for view in views)
    counted |= any(view.processes == here and not view.repeated for view in case.job.files)
    return counted or (bool(places) and all(_is_loopback(place) for place in places))


def _is_loopback(place: Address) -> bool:
    try:
        return ipaddress.ip_address(place.host).is_loopback
    except ValueError:
        return place.host == "localhost"


def _quote(case: Case, number: int, size: int) -> Evidence:
    member = case.member(number)
    _, source = _world_sizes(case).get(number) or (size, member.processes[-1].source)
    return Evidence(
        source=source.file,
        line=source.line,
        rank=member.rank,
        quote=f"{member.name} (pid {member.pid}) joins a world of {size} ranks",
    )
