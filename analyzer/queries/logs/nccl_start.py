"""NCCL was being set up when the logs ended: some ranks were further, or could not connect."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import NcclPhase, NetChannel, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.logs.nccl import (
    MAX_SETUPS,
    NOT_BEGUN,
    cite_setups,
    open_setups,
    setup_in_words,
    setups,
    setups_all_in,
)
from whyhang.analyzer.queries.machines.cluster import VIRTUAL
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.rank_state.from_logs.gave_up import last_lines
from whyhang.analyzer.report import Collective, cite


@side("nccl_start", what="incomplete")
def _incomplete(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks that have not begun, or those that are not through."""
    read = last_lines(case.job)  # or else what came then is not known
    stages = {rank: s for rank, s in open_setups(case).items() if rank in read}
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
        evidence=cite_setups(stages, (*behind[:3], *ahead[:2])),
        collective=Collective(op="comm_init"),
        fields={
            "who": ranks_in_words(behind),
            "others": ranks_in_words(ahead),
            "does": setup_in_words(stages[behind[0]].phase, many=len(behind) > 1),
            "state": "complete" if complete else "begun",
            "count": f"{len(ahead)} of {case.job.world_size or len(stages)}",
        },
    )


@side("nccl_start", what="virtual-interface")
def _over_virtual_interface(case: Case) -> Iterator[Hit]:
    """Yield one hit for ranks in the bootstrap that mean to meet over such an interface."""
    stages = setups_all_in(case, NcclPhase.BOOTSTRAP)
    chosen = {rank: s for rank, s in setups(case) if s.interface and rank in stages}
    odd = {rank: s for rank, s in chosen.items() if s.interface.startswith(VIRTUAL)}
    if not odd:
        return
    first = next(iter(odd.values()))
    yield Hit(
        members=tuple(m.id for m in case.job.members if m.rank in odd),
        ranks=tuple(sorted(odd)),
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=len(odd) < len(chosen),
        evidence=tuple(
            cite(s.source, f"Bootstrap: Using {s.interface}:{s.address}", rank)
            for rank, s in list(odd.items())[:MAX_SETUPS]
        ),
        fields={"who": ranks_in_words(odd), "interface": first.interface, "address": first.address},
    )


Edge = tuple[int, int]
"""Who sends, who receives."""

MAX_EDGES = 4


@query
def connections_not_made(case: Case, *, sockets: bool) -> Iterator[Hit]:
    """Yield one hit for connections between ranks that were never made, though everybody came.

    Both ends of a connection over the network print it, and each rank "Connected all rings" once
    its own are made. ``sockets``: those over sockets, or those over InfiniBand and plugins.
    """
    stages = open_setups(case)
    connecting = {r for r, stage in stages.items() if stage.phase is NcclPhase.CONNECTING}
    done = {r for r, stage in stages.items() if stage.phase > NcclPhase.CONNECTING}
    ends = _ends(case)
    if not connecting:
        return
    # Both ranks' lines were read, and one end is missing; else both are there, and did not meet.
    half = [edge for edge, both in ends.items() if None in both and stages.keys() >= {*edge}]
    between = {e: [end for end in both if end] for e, both in ends.items()}
    open_ = [e for e in between if connecting.issuperset(e) and done]
    edges = half or open_
    ways = {end.via for edge in edges for end in between[edge]}
    if not edges or any(way.startswith("NET/Socket") is not sockets for way in ways):
        return
    hosts = {rank: case.job.members[case.job.by_rank[rank]].host for rank in stages}
    yield Hit(
        affected=tuple(m.id for m in case.job.members if m.rank in stages),
        names_culprit=False,
        strength=CLEAR if half else INDIRECT,
        evidence=(
            *(
                cite(end.source, end.text, rank)
                for edge in edges
                for rank, end in zip(edge, ends[edge], strict=True)
                if end is not None
            ),
            *cite_setups(stages, sorted(done)[:2]),
        )[:MAX_SETUPS],
        collective=Collective(op="comm_init"),
        fields={
            "edges": ", ".join(_named(edge, hosts) for edge in edges[:MAX_EDGES])
            + (f" and {len(edges) - MAX_EDGES} more" if len(edges) > MAX_EDGES else ""),
            "via": ", ".join(sorted(ways)),
            "done": f"; {ranks_in_words(done)} connected theirs" if done else "",
            "how": "only one of the two ends has set it up"
            if half
            else "both ends have not connected, while others have",
        },
    )


def _ends(case: Case) -> dict[Edge, tuple[NetChannel | None, NetChannel | None]]:
    """Return the two ends of each connection, as far as each is printed by its own rank."""
    ends: dict[Edge, tuple[NetChannel | None, NetChannel | None]] = {}
    for channel in case.job.of(NetChannel):
        member = case.job.member_of(channel.who)
        edge = (channel.sender, channel.receiver)
        # In another communicator than that of all ranks the numbers are not the ranks.
        if member is None or member.rank != edge[not channel.sends]:
            continue
        sender, receiver = ends.get(edge, (None, None))
        ends[edge] = (channel, receiver) if channel.sends else (sender, channel)
    return ends


def _named(edge: Edge, hosts: dict[int, str | None]) -> str:
    places = [f" ({hosts[rank]})" if hosts.get(rank) else "" for rank in edge]
    return f"rank {edge[0]}{places[0]} to rank {edge[1]}{places[1]}"
