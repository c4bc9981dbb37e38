"""NCCL was being set up when the logs ended: how far each rank had come.

With NCCL_DEBUG=INFO each rank prints its interface, its network, Init START, topology, channels and
Init COMPLETE.
"""

from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LastLine, NcclPhase, NcclSetup, SignOfLife, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, Hit
from whyhang.analyzer.report import Collective, Evidence, cite

MEANS = {
    NcclPhase.ABSENT: "has not come to NCCL's set-up: its log ends before",
    NcclPhase.INTERFACE: "has chosen its interface and not begun the set-up",
    NcclPhase.NETWORK: "has chosen its network and not begun the set-up",
    NcclPhase.BOOTSTRAP: "stands in the bootstrap, where all ranks find each other",
    NcclPhase.TOPOLOGY: "has seen all ranks and stands in finding the topology",
    NcclPhase.CHANNELS: "has planned its channels and not connected any",
    NcclPhase.CONNECTING: "stands in connecting its channels",
    NcclPhase.CONNECTED: "has connected its channels and stands in the last barrier of the set-up",
    NcclPhase.COMPLETE: "has completed the set-up",
}

NOT_BEGUN = {NcclPhase.ABSENT, NcclPhase.INTERFACE, NcclPhase.NETWORK}

MAX_QUOTES = 6


def setups(case: Case) -> Iterator[tuple[int, NcclSetup]]:
    """Yield what each rank printed of its set-up."""
    for stage in case.job.of(NcclSetup):
        member = case.job.member_of(stage.who)
        rank = member.rank if member is not None else stage.who.rank
        if rank is not None:
            yield rank, stage


def open_setups(case: Case) -> dict[int, NcclSetup]:
    """Return the furthest that each rank came, where a set-up was open when the logs ended."""
    stages: dict[int, NcclSetup] = {}
    for rank, stage in setups(case):
        if rank not in stages or stage.phase > stages[rank].phase:
            stages[rank] = stage
    stages |= _absent(case, stages)
    phases = [stage.phase for stage in stages.values()]
    if len(stages) < 2 or case.job.of(SignOfLife):
        return {}
    return {} if min(phases) is NcclPhase.COMPLETE or max(phases) in NOT_BEGUN else stages


def _absent(case: Case, stages: Mapping[int, NcclSetup]) -> dict[int, NcclSetup]:
    """Return the few ranks whose logs end before NCCL's first line; all others wait to meet."""
    absent = {
        end.who.rank: NcclSetup(
            who=end.who, source=end.source, phase=NcclPhase.ABSENT, text=end.text
        )
        for end in case.job.of(LastLine)
        if end.ends_log and end.who.rank is not None and end.who.rank not in stages
    }
    meeting = all(stage.phase <= NcclPhase.BOOTSTRAP for stage in stages.values())
    return absent if meeting and len(absent) < len(stages) / 2 else {}


def setups_all_in(case: Case, phase: NcclPhase) -> dict[int, NcclSetup]:
    """Return the open set-ups if all of them stand in one phase."""
    stages = open_setups(case)
    return stages if {stage.phase for stage in stages.values()} == {phase} else {}


def stuck_in_setup(case: Case, phase: NcclPhase, via: str = "") -> tuple[Hit, ...]:
    """Return one hit if all ranks seen stand in one phase; ``via``: the last channels go that way.

    A way is what NCCL prints: "P2P", "SHM", "NET/IB".
    """
    stages = setups_all_in(case, phase)
    ways = {stage.transport for stage in stages.values()}
    if not stages or not all(way.startswith(via) for way in ways):
        return ()
    whole = case.job.world_size is None or len(stages) >= case.job.world_size
    hit = Hit(
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=False,
        strength=CLEAR if whole else GUESSED,
        evidence=cite_setups(stages, sorted(stages)),
        collective=Collective(op="comm_init"),
        fields={
            "who": ranks_in_words(stages),
            "does": setup_in_words(phase, many=True),
            "via": ", ".join(sorted({way.partition("/")[0] for way in ways if way})) or "?",
        },
    )
    return (hit,)


def setup_in_words(phase: NcclPhase, *, many: bool) -> str:
    """Return what a rank does in a phase, or what several do."""
    words = MEANS[phase]
    for one, all_ in (("has ", "have "), ("stands ", "stand "), ("its ", "their ")):
        words = words.replace(one, all_) if many else words
    return words


def cite_setups(stages: Mapping[int, NcclSetup], ranks: Sequence[int]) -> tuple[Evidence, ...]:
    """Cite the lines in which ranks say how far they are."""
    return tuple(cite(stages[rank].source, stages[rank].text, rank) for rank in ranks[:MAX_QUOTES])
