"""What the sockets of the ranks show: connections between hosts of the job that get no answer."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import HostSilence, ranks_in_words, same_host
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.job.connections import Unanswered
from whyhang.analyzer.queries.hits import MAX_QUOTES, cite_process, places_of
from whyhang.analyzer.queries.machines.cluster import ranks_on
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.startup.store_place import OPEN, starting_ranks
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.wording.title_fields import subject_fields

SURE = 4
"""Times that a packet was sent again from which on it is no busy network any more."""


def silent_hosts(case: Case) -> dict[str, HostSilence]:
    """Return the hosts that did not answer when whyhang tried to reach them."""
    return {fact.who.host: fact for fact in case.job.of(HostSilence) if fact.who.host}


def ranks_on_silent(case: Case, silent: Iterable[str]) -> tuple[int, ...]:
    """Return the ranks on hosts that do not answer: known to be there, or on no other host.

    Which of them the others cannot be told from, where further hosts were not looked at.
    """
    names = list(silent)
    known = set(ranks_on(case, names))
    elsewhere = [gap for gap in case.job.gaps if gap.who.host and gap.what.endswith(gap.who.host)]
    if all(any(same_host(gap.who.host, name) for name in names) for gap in elsewhere):
        known |= set(case.job.absent)
        unseen = (case.member(s.member) for s in case.states if s.status is Status.UNSEEN)
        # a log on a shared file system is read on another host than the rank's
        known |= {one.rank for one in unseen if one.rank is not None and not one.processes}
    return tuple(sorted(known))


def cite_unanswered(case: Case, connections: Iterable[Unanswered]) -> list[Evidence]:
    """Cite the sockets that get no answer, with whose they are."""
    return [cite_process(case.member(one.member), str(one.socket)) for one in connections]


def leads_to(case: Case, connection: Unanswered, host: str) -> bool:
    """Return whether a connection goes to a host, or to an address that nobody else has."""
    to = connection.to
    if to.host is not None:
        return same_host(to.host, host)
    return to.member is None and len(silent_hosts(case)) == 1


@side("unanswered", between="two-hosts")
def _two_hosts(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody for connections between hosts that get no answer.

    Both hosts have others that they reach, or there are but these two.
    """
    connections = _seen(case)
    if connections and _cut_off(connections) is None:
        yield _hit(case, connections, "")


@side("unanswered", between="one-and-others")
def _one_and_others(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks of the one host whose connections to several get no answer."""
    connections = _seen(case)
    host = _cut_off(connections)
    if host is not None:
        yield _hit(case, connections, host)


def _seen(case: Case) -> list[Unanswered]:
    """List the connections that get no answer, but those of which something else tells more.

    Where a rank cannot reach the store is told by who asked there; a host that whyhang itself
    cannot reach is a finding of its own.
    """
    if case.graph.progress or not waiters_for(case):
        return []
    asked = {
        (at.member, at.view.port)
        for at in starting_ranks(case)
        if at.view is not None and at.outcome not in OPEN
    }
    silent = silent_hosts(case)
    return [
        one
        for one in case.connections.unanswered()
        if (one.member, one.to.address.port) not in asked
        and not any(leads_to(case, one, host) for host in silent)
    ]


def _cut_off(connections: Sequence[Unanswered]) -> str | None:
    """Return the one host that all of them begin or end at, where they lead to several others."""
    ends: dict[str, set[str]] = defaultdict(set)
    for one in connections:
        here, there = one.ends
        ends[here].add(there)
        ends[there].add(here)
    common = [host for host, others in ends.items() if len(others) == len(ends) - 1]
    return common[0] if len(ends) > 2 and len(common) == 1 else None


def _hit(case: Case, connections: Sequence[Unanswered], host: str) -> Hit:
    """Return what is known of connections without an answer: who, where to, and since when."""
    connections = sorted(connections, key=lambda one: one.made)
    first = connections[0]
    here, there = first.ends
    ranks = _ranks_at(case, connections, host) if host else ()
    made = any(one.made for one in connections)
    other = case.connections.stands_between(first.host, first.to.host)
    sure = any(one.socket.again >= SURE for one in connections)
    counted = any(one.socket.again for one in connections)
    members = tuple(dict.fromkeys(one.member for one in connections))
    waiting = tuple(n for n in waiters_for(case) if case.member(n).rank not in ranks)
    fields = subject_fields(case, [case.states[n] for n in members], waiting)
    more = len(connections) - 1
    fields |= {
        "who": ranks_in_words(ranks) if ranks else case.names(members),
        "connection": f"{_end(case, first.member, here)} to {_other_end(case, first)}",
        "more": f" (and {more} more like it)" if more else "",
        "hosts": " and ".join(sorted({here, there})),
        "host": host,
        "here": here,
        "runs_there": f"on which {ranks_in_words(ranks)} {'run' if len(ranks) > 1 else 'runs'}"
        if ranks
        else "which was not looked at",
        "address": first.to.address.host,
        "port": str(first.to.address.port),
        "how": "was made before, and nothing that is sent is acknowledged any more"
        if first.made
        else "cannot be made",
        # the two hosts have reached each other, where only some of their ports do not
        "others": f" Another connection between the two was made ({other}): it is not all ports."
        if other is not None and not first.made
        else "",
    }
    at_store = {at.address.port for at in starting_ranks(case)}
    at_meeting = not made and any(one.to.address.port in at_store for one in connections)
    return Hit(
        ranks=ranks,
        affected=waiting,
        evidence=(
            *cite_unanswered(case, connections[:MAX_QUOTES]),
            *_listening(case, first),
            *places_of(case, *members[:1]),
        ),
        names_culprit=bool(ranks),
        strength=CLEAR if sure else INDIRECT if counted else INCOMPLETE,
        category="init-master-unreachable" if at_meeting else "",
        fields=fields,
    )


def _ranks_at(case: Case, connections: Sequence[Unanswered], host: str) -> tuple[int, ...]:
    """Return the ranks on a host, or at an address of several that one host has."""
    if any(host in {one.host, one.to.host} for one in connections):
        return ranks_on(case, (host,))
    here = {one.member for one in connections if one.ends[0] == host}
    there = {one.to.member for one in connections if one.ends[1] == host}
    return case.ranks(number for number in here | there if number is not None)


def _end(case: Case, member: int, host: str | None) -> str:
    return f"{case.names((member,))}{f' on {host}' if host else ''}"


def _other_end(case: Case, connection: Unanswered) -> str:
    to, place = connection.to, connection.ends[1]
    if to.member is not None and connection.made:
        return _end(case, to.member, place)
    listens = f" ({case.names((to.member,))} listens there)" if to.member is not None else ""
    unknown = "" if to.known else " (on no host that was looked at)"
    return f"{place}{unknown}" if connection.made else f"{place} port {to.address.port}{listens}"


def _listening(case: Case, connection: Unanswered) -> list[Evidence]:
    """Cite the socket at the other end: it is there, and nothing comes."""
    number = connection.to.member
    if number is None:
        return []
    member, peer = case.member(number), connection.to.address
    sockets = case.connections.sockets(number)
    ends = (s for s in sockets if s.own == peer and s.peer == connection.socket.own)
    listens = (s for s in sockets if s.state == "listen" and s.own.port == peer.port)
    found = next(ends, None) or next(listens, None)
    return [cite_process(member, str(found))] if found is not None else []
