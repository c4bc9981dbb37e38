"""What may hold a rank back without being its fault: a host that is near a limit."""

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import NearLimit
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.rank_state.over_time.motion import Moved

MOST = 6  # limits
OF_PROCESSORS = {"load", "cpu-quota"}


def pressure_of(case: Case, hit: Hit) -> list[NearLimit]:
    """Return what was near its limit for the ranks of a hit, or for their host: each limit once.

    A job that was collected twice has two readings of it, of which the last counts. Who does not
    run at all wants no processor.
    """
    members = [case.member(number) for number in hit.members]
    still = all(case.states[number].motion.moved is Moved.STILL for number in hit.members)
    theirs = {(member.host, pid) for member in members for pid in (None, member.pid)}
    last = {
        (fact.who.host, fact.who.pid, fact.limit, fact.size): fact
        for fact in case.job.of(NearLimit)
        if not (still and fact.limit in OF_PROCESSORS)
        if (fact.who.host, fact.who.pid) in theirs
    }
    return list(last.values())[:MOST]


def pressure_in_words(limits: Sequence[NearLimit]) -> list[str]:
    """Say what was near its limit; hosts by name where they are several."""
    several = len({fact.who.host for fact in limits}) > 1
    hosts = ((fact.who.host if several else None) or "the host" for fact in limits)
    return list(dict.fromkeys(fact.on(host) for fact, host in zip(limits, hosts, strict=True)))
