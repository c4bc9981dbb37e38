"""NCCL was being set up when the logs ended: some ranks were further, or could not meet."""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NcclPhase
from whyhang.analyzer.findings.signature import CLEAR, GUESSED
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.queries.nccl import MAX_SETUPS, NOT_BEGUN
from whyhang.analyzer.rank_state.gave_up import last_lines
from whyhang.analyzer.report import Collective


def incomplete(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that have not begun, or those that are not through."""
    read = last_lines(case.job)  # or else what came then is not known
    stages = {rank: s for rank, s in queries.open_setups(case).items() if rank in read}
    if not stages:
        return
    low = min(stage.phase for stage in stages.values())
    through = [rank for rank, stage in stages.items() if stage.phase is NcclPhase.COMPLETE]
    # In between all phases lies an exchange with all ranks: who is ahead by one is not through.
    if low not in NOT_BEGUN and not through:
        return
    behind = tuple(
        rank
        for rank in sorted(stages)
        if (rank not in through if through else stages[rank].phase == low)
    )
    ahead = tuple(sorted(set(stages) - set(behind)))
    few = len(behind) < len(ahead)
    complete = all(stages[rank].phase is NcclPhase.COMPLETE for rank in ahead)
    yield Hit(
        members=tuple(m.id for m in case.job.members if m.rank in behind),
        ranks=behind,
        affected=tuple(m.id for m in case.job.members if m.rank in ahead),
        names_culprit=few,
        strength=CLEAR if few else GUESSED,
        evidence=queries.cite_setups(stages, (*behind[:3], *ahead[:2])),
        collective=Collective(op="comm_init"),
        fields={
            "who": queries.ranks_in_words(behind),
            "others": queries.ranks_in_words(ahead),
            "does": queries.setup_in_words(stages[behind[0]].phase, many=len(behind) > 1),
            "state": "complete" if complete else "begun",
            "count": f"{len(ahead)} of {case.job.world_size or len(stages)}",
        },
    )


def over_virtual_interface(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks in the bootstrap that mean to meet over such an interface."""
    stages = queries.setups_all_in(case, NcclPhase.BOOTSTRAP)
    chosen = {rank: s for rank, s in queries.setups(case) if s.interface and rank in stages}
    odd = {rank: s for rank, s in chosen.items() if s.interface.startswith(queries.VIRTUAL)}
    if not odd:
        return
    first = next(iter(odd.values()))
    yield Hit(
        members=tuple(m.id for m in case.job.members if m.rank in odd),
        ranks=tuple(sorted(odd)),
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=len(odd) < len(chosen),
        evidence=tuple(
            queries.cite(s.source, f"Bootstrap: Using {s.interface}:{s.address}", rank)
            for rank, s in list(odd.items())[:MAX_SETUPS]
        ),
        fields={
            "who": queries.ranks_in_words(odd),
            "interface": first.interface,
            "address": first.address,
        },
    )


INCOMPLETE = Signature(
    id="nccl-start-incomplete",
    story="""\
NCCL's set-up is through, or begun, on some ranks and not on others.

Each rank prints with NCCL_DEBUG=INFO how far it came: interface, network, Init START, topology,
channels, Init COMPLETE. A rank that never printed Init START has not come to its first
collective; the others wait for it in the bootstrap. One that never printed Init COMPLETE while
the rest did is stuck with its own connections.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="NCCL's set-up is {state} on {count} ranks; {who} {does}",
    when=incomplete,
    means=(
        "The last line of each rank before the silence tells: {others} have the set-up {state}, "
        "{who} {does}."
    ),
    confidence="likely",
    remedies=(
        "Look at {who} first: where does its Python stack stand, what is in its own log?",
        "If it is in the set-up, compare its NCCL_* variables, interface and devices with others'.",
    ),
    next_steps=(
        "whyhang PID  # on the host of {who}",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET on the next run, for all ranks",
    ),
)

VIRTUAL_INTERFACE = Signature(
    id="nccl-start-virtual-interface",
    story="""\
NCCL's ranks try to meet over an interface that only exists within its host.

Without NCCL_SOCKET_IFNAME the first interface that is up is taken, and that may be the bridge of
a container runtime (docker0, cni0, virbr0, veth…). Ranks of other hosts cannot reach such an
address: everyone begins the communicator, and they never meet.

If only some ranks took such an interface, these are named.
""",
    category="nccl-network-interface",
    level="wait",
    title="NCCL tries to meet over {interface} ({address}), which other hosts cannot reach",
    when=over_virtual_interface,
    means=(
        "{who} waits in NCCL's bootstrap with the address of a virtual interface, which leads "
        "nowhere from other hosts."
    ),
    confidence="likely",
    remedies=("Set NCCL_SOCKET_IFNAME to the interface that all hosts share (or ^docker,veth).",),
    next_steps=(
        "Run again with NCCL_SOCKET_IFNAME=NAME of that interface: it starts if this is it.",
        "ip -br addr  # on two of the hosts",
    ),
    links=("https://github.com/NVIDIA/nccl/issues/913",),
)

SIGNATURES = (INCOMPLETE, VIRTUAL_INTERFACE)
