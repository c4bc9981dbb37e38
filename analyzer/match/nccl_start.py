"""Matchers over NCCL's start: on how many ranks the set-up is complete, where the others stand."""

from __future__ import annotations

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import NcclPhase, NcclSetup, Record, SignOfLife
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, Hit
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.wording.describe import ranks_in_words

MEANS = {
    NcclPhase.INTERFACE: "has chosen its interface and not begun the set-up",
    NcclPhase.NETWORK: "has chosen its network and not begun the set-up",
    NcclPhase.BOOTSTRAP: "stands in the bootstrap, where all ranks find each other",
    NcclPhase.TOPOLOGY: "has seen all ranks and stands in finding the topology",
    NcclPhase.CHANNELS: "has planned its channels and not connected any",
    NcclPhase.CONNECTING: "stands in connecting its channels",
    NcclPhase.CONNECTED: "has connected its channels and stands in the last barrier of the set-up",
    NcclPhase.COMPLETE: "has completed the set-up",
}
NOT_BEGUN = {NcclPhase.INTERFACE, NcclPhase.NETWORK}
MAX_QUOTES = 6


class NcclStart(Record):
    """NCCL was being set up when the logs ended.

    ``apart``: only where some ranks are further than others, or only where all are at one phase.
    ``phases`` limits the latter to these phases, ``via`` to those whose last channel was of such
    a transport ("P2P", "NET/IB"). ``interface``: some of them meet over one whose name begins so;
    where others do not, these are named.
    """

    apart: bool
    phases: tuple[NcclPhase, ...] = ()
    via: str = ""
    interface: tuple[str, ...] = ()

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit; it names ranks that have not begun, or the few that are not through."""
        stages = _stages(case)
        if len(stages) < 2 or case.job.of(SignOfLife):
            return ()
        reached = {rank: stage.phase for rank, stage in stages.items()}
        low, high = min(reached.values()), max(reached.values())
        if low is NcclPhase.COMPLETE or high in NOT_BEGUN:
            return ()
        behind = tuple(rank for rank in sorted(reached) if reached[rank] == low)
        if not self.apart:
            return self._together(case, stages, low) if low == high else ()
        # In between all phases lies an exchange with all ranks: who is ahead by one is not through.
        through = [rank for rank in reached if reached[rank] is NcclPhase.COMPLETE]
        if low not in NOT_BEGUN and not through:
            return ()
        if through:
            behind = tuple(rank for rank in sorted(reached) if rank not in through)
        return (self._apart(case, stages, behind, tuple(sorted(set(reached) - set(behind)))),)

    def _apart(
        self,
        case: Case,
        stages: dict[int, NcclSetup],
        behind: tuple[int, ...],
        ahead: tuple[int, ...],
    ) -> Hit:
        few = len(behind) < len(ahead)
        complete = all(stages[rank].phase is NcclPhase.COMPLETE for rank in ahead)
        phase = stages[behind[0]].phase
        many = len(behind) > 1
        return Hit(
            members=tuple(m.id for m in case.job.members if m.rank in behind),
            ranks=behind,
            affected=tuple(m.id for m in case.job.members if m.rank in ahead),
            names_culprit=few,
            strength=CLEAR if few else GUESSED,
            evidence=_quotes(stages, (*behind[:3], *ahead[:2])),
            collective=Collective(op="comm_init"),
            fields={
                "who": ranks_in_words(behind),
                "others": ranks_in_words(ahead),
                "does": _many(MEANS[phase]) if many else MEANS[phase],
                "state": "complete" if complete else "begun",
                "count": f"{len(ahead)} of {case.job.world_size or len(stages)}",
            },
        )

    def _together(
        self, case: Case, stages: dict[int, NcclSetup], phase: NcclPhase
    ) -> tuple[Hit, ...]:
        if self.phases and phase not in self.phases:
            return ()
        vias = {stage.transport for stage in stages.values()}
        if self.via and not all(via.startswith(self.via) for via in vias):
            return ()
        if self.interface:
            return self._over(case, stages)
        whole = case.job.world_size is None or len(stages) >= case.job.world_size
        return (
            Hit(
                affected=tuple(m.id for m in case.job.members if m.rank in stages),
                names_culprit=False,
                strength=CLEAR if whole else GUESSED,
                evidence=_quotes(stages, tuple(sorted(stages))),
                collective=Collective(op="comm_init"),
                fields={
                    "who": ranks_in_words(stages),
                    "does": _many(MEANS[phase]),
                    "via": ", ".join(sorted({via.partition("/")[0] for via in vias if via})) or "?",
                },
            ),
        )

    def _over(self, case: Case, stages: dict[int, NcclSetup]) -> tuple[Hit, ...]:
        """Tell of ranks that mean to meet over an interface of such a name."""
        told = {rank: stage for rank, stage in _interfaces(case).items() if rank in stages}
        odd = {rank: s for rank, s in told.items() if s.interface.startswith(self.interface)}
        if not odd:
            return ()
        first = next(iter(odd.values()))
        return (
            Hit(
                members=tuple(m.id for m in case.job.members if m.rank in odd),
                ranks=tuple(sorted(odd)),
                affected=tuple(m.id for m in case.job.members if m.rank in stages),
                names_culprit=len(odd) < len(told),
                evidence=tuple(
                    Evidence(
                        source=stage.source.file,
                        line=stage.source.line,
                        rank=rank,
                        quote=f"Bootstrap: Using {stage.interface}:{stage.address}",
                    )
                    for rank, stage in list(odd.items())[:MAX_QUOTES]
                ),
                fields={
                    "who": ranks_in_words(odd),
                    "interface": first.interface,
                    "address": first.address,
                },
            ),
        )


def _interfaces(case: Case) -> dict[int, NcclSetup]:
    """Give for each rank what it said of the interface over which it means to meet."""
    return {rank: stage for rank, stage in _of_ranks(case) if stage.interface}


def nccl_start(
    *phases: str, apart: bool = False, via: str = "", interface: tuple[str, ...] = ()
) -> NcclStart:
    """Ask where NCCL's set-up stands; see ``NcclStart``."""
    return NcclStart(
        apart=apart,
        phases=tuple(NcclPhase[name.upper()] for name in phases),
        via=via,
        interface=interface,
    )


def _many(words: str) -> str:
    """Put a phrase for one rank into the plural."""
    for one, many in (("has ", "have "), ("stands ", "stand "), ("its ", "their ")):
        words = words.replace(one, many)
    return words


def _stages(case: Case) -> dict[int, NcclSetup]:
    """Give for each rank the furthest that any of its processes came."""
    found: dict[int, NcclSetup] = {}
    for rank, stage in _of_ranks(case):
        if rank not in found or stage.phase > found[rank].phase:
            found[rank] = stage
    return found


def _of_ranks(case: Case) -> Iterator[tuple[int, NcclSetup]]:
    for stage in case.job.of(NcclSetup):
        member = case.job.member_of(stage.who)
        rank = member.rank if member is not None else stage.who.rank
        if rank is not None:
            yield rank, stage


def _quotes(stages: dict[int, NcclSetup], ranks: tuple[int, ...]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            source=stages[rank].source.file,
            line=stages[rank].source.line,
            rank=rank,
            quote=stages[rank].text,
        )
        for rank in ranks[:MAX_QUOTES]
    )
