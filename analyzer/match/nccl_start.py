"""Matchers over NCCL's start: on how many ranks the set-up is complete, where the others stand."""

from __future__ import annotations

from whyhang.analyzer.case import Case
from whyhang.analyzer.describe import ranks_in_words
from whyhang.analyzer.model import Claim, Record
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.signature import Hit

MEANS = {
    "interface": "has chosen its interface and not begun the set-up",
    "network": "has chosen its network and not begun the set-up",
    "bootstrap": "stands in the bootstrap, where all ranks find each other",
    "topology": "has seen all ranks and stands in finding the topology",
    "channels": "has planned its channels and not connected any",
    "connecting": "stands in connecting its channels",
    "connected": "has connected its channels and stands in the last barrier of the set-up",
    "complete": "has completed the set-up",
}
ORDER = tuple(MEANS)
NOT_BEGUN = {"interface", "network"}
MAX_QUOTES = 6


class NcclStart(Record):
    """NCCL was being set up when the logs ended.

    ``apart``: only where some ranks are further than others, or only where all are at one phase.
    ``phases`` limits the latter to these phases, ``via`` to those whose last channel was of such
    a transport ("P2P", "NET/IB"). ``interface``: some of them meet over one whose name begins so;
    where others do not, these are named.
    """

    apart: bool
    phases: tuple[str, ...] = ()
    via: str = ""
    interface: tuple[str, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; it names ranks that have not begun, or the few that are not through."""
        stages = _stages(case)
        if len(stages) < 2 or any(c.about == "sign-of-life" for c in case.job.claims):
            return ()
        reached = {rank: ORDER.index(name) for rank, (name, _, _) in stages.items()}
        low, high = min(reached.values()), max(reached.values())
        if ORDER[low] == "complete" or ORDER[high] in NOT_BEGUN:
            return ()
        behind = tuple(rank for rank in sorted(reached) if reached[rank] == low)
        if not self.apart:
            return self._together(case, stages, ORDER[low]) if low == high else ()
        # In between all phases lies an exchange with all ranks: who is ahead by one is not through.
        not_begun = ORDER[low] in NOT_BEGUN
        through = [rank for rank in reached if ORDER[reached[rank]] == "complete"]
        if not not_begun and not through:
            return ()
        if through:
            behind = tuple(rank for rank in sorted(reached) if rank not in through)
        return (self._apart(case, stages, behind, tuple(sorted(set(reached) - set(behind)))),)

    def _apart(
        self,
        case: Case,
        stages: dict[int, tuple[str, str, Claim]],
        behind: tuple[int, ...],
        ahead: tuple[int, ...],
    ) -> Hit:
        few = len(behind) < len(ahead)
        complete = all(stages[rank][0] == "complete" for rank in ahead)
        name = stages[behind[0]][0]
        many = len(behind) > 1
        return Hit(
            members=tuple(m.id for m in case.job.members if m.rank in behind),
            ranks=behind,
            affected=tuple(m.id for m in case.job.members if m.rank in ahead),
            names_culprit=few,
            strength=1.0 if few else 0.6,
            evidence=_quotes(stages, (*behind[:3], *ahead[:2])),
            collective=Collective(op="comm_init"),
            fields={
                "who": ranks_in_words(behind),
                "others": ranks_in_words(ahead),
                "does": _many(MEANS[name]) if many else MEANS[name],
                "state": "complete" if complete else "begun",
                "count": f"{len(ahead)} of {case.job.world_size or len(stages)}",
            },
        )

    def _together(
        self, case: Case, stages: dict[int, tuple[str, str, Claim]], name: str
    ) -> tuple[Hit, ...]:
        if self.phases and name not in self.phases:
            return ()
        if self.via and not all(via.startswith(self.via) for _, via, _ in stages.values()):
            return ()
        vias = {via.partition("/")[0] for _, via, _ in stages.values()}
        if self.interface:
            return self._over(case, stages)
        whole = case.job.world_size is None or len(stages) >= case.job.world_size
        return (
            Hit(
                affected=tuple(m.id for m in case.job.members if m.rank in stages),
                names_culprit=False,
                strength=1.0 if whole else 0.6,
                evidence=_quotes(stages, tuple(sorted(stages))),
                collective=Collective(op="comm_init"),
                fields={
                    "who": ranks_in_words(stages),
                    "does": _many(MEANS[name]),
                    "via": ", ".join(sorted(via for via in vias if via)) or "?",
                },
            ),
        )

    def _over(self, case: Case, stages: dict[int, tuple[str, str, Claim]]) -> tuple[Hit, ...]:
        """Tell of ranks that mean to meet over an interface of such a name."""
        told = {rank: claim for rank, claim in _interfaces(case).items() if rank in stages}
        odd = {rank: c for rank, c in told.items() if c.value.startswith(self.interface)}
        if not odd:
            return ()
        first = next(iter(odd.values()))
        name, _, address = first.value.partition(":")
        return (
            Hit(
                members=tuple(m.id for m in case.job.members if m.rank in odd),
                ranks=tuple(sorted(odd)),
                affected=tuple(m.id for m in case.job.members if m.rank in stages),
                names_culprit=len(odd) < len(told),
                evidence=tuple(
                    Evidence(
                        source=claim.source.file,
                        line=claim.source.line,
                        rank=rank,
                        quote=f"Bootstrap: Using {claim.value}",
                    )
                    for rank, claim in list(odd.items())[:MAX_QUOTES]
                ),
                fields={
                    "who": ranks_in_words(odd),
                    "interface": name,
                    "address": address.partition("<")[0],
                },
            ),
        )


def _interfaces(case: Case) -> dict[int, Claim]:
    """Give for each rank what it said of the interface over which it means to meet."""
    found: dict[int, Claim] = {}
    for claim in case.job.claims:
        if claim.about == "nccl-interface":
            member = case.job.member_of(claim.who)
            rank = member.rank if member is not None else claim.who.rank
            if rank is not None:
                found[rank] = claim
    return found


def nccl_start(
    *phases: str, apart: bool = False, via: str = "", interface: tuple[str, ...] = ()
) -> NcclStart:
    """Ask where NCCL's set-up stands; see ``NcclStart``."""
    return NcclStart(apart=apart, phases=phases, via=via, interface=interface)


def _many(words: str) -> str:
    """Put a phrase for one rank into the plural."""
    for one, many in (("has ", "have "), ("stands ", "stand "), ("its ", "their ")):
        words = words.replace(one, many)
    return words


def _stages(case: Case) -> dict[int, tuple[str, str, Claim]]:
    """Give for each rank its phase, the transport it named last, and the claim."""
    found: dict[int, tuple[str, str, Claim]] = {}
    for claim in case.job.claims:
        if claim.about != "nccl-phase":
            continue
        member = case.job.member_of(claim.who)
        rank = member.rank if member is not None else claim.who.rank
        name, via, _ = claim.value.split("\n", 2)
        if rank is None:
            continue
        if rank not in found or ORDER.index(name) > ORDER.index(found[rank][0]):
            found[rank] = (name, via, claim)
    return found


def _quotes(
    stages: dict[int, tuple[str, str, Claim]], ranks: tuple[int, ...]
) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            source=stages[rank][2].source.file,
            line=stages[rank][2].source.line,
            rank=rank,
            quote=stages[rank][2].value.split("\n", 2)[2],
        )
        for rank in ranks[:MAX_QUOTES]
    )
