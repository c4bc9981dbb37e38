"""NCCL's own lines: how far its set-up came on each rank, and what it warned of.

With NCCL_DEBUG=INFO each rank prints its interface, its network, Init START, topology, channels and
Init COMPLETE. A ``NCCL WARN`` line is what NCCL prints before it returns an error; PyTorch repeats
the last one behind "Last error:", even where NCCL_DEBUG is not set.
"""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    LastLine,
    LogLine,
    NcclPhase,
    NcclSetup,
    NetChannel,
    SignOfLife,
    ranks_in_words,
)
from whyhang.analyzer.facts.times import latest
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.queries.hits import cite_lines, members_of
from whyhang.analyzer.queries.machines.networks import VIRTUAL
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.rank_state.from_logs.gave_up import last_lines
from whyhang.analyzer.rank_state.from_logs.log_ends import have_ended, unanswered
from whyhang.analyzer.report import Collective, Evidence, cite
from whyhang.analyzer.toml import table

_WORDS: dict[str, dict[str, str]] = table(__package__, "nccl.toml")

NOT_BEGUN = {NcclPhase.ABSENT, NcclPhase.INTERFACE, NcclPhase.NETWORK}

MAX_SETUPS = 6


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


@query
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
        affected=members_of(case, stages),
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
    forms = ("have", "stand", "their") if many else ("has", "stands", "its")
    return _WORDS["phases"][phase.name.lower()].format_map(
        dict(zip(("has", "stands", "its"), forms, strict=True))
    )


def cite_setups(stages: Mapping[int, NcclSetup], ranks: Sequence[int]) -> tuple[Evidence, ...]:
    """Cite the lines in which ranks say how far they are."""
    return tuple(cite(stages[rank].source, stages[rank].text, rank) for rank in ranks[:MAX_SETUPS])


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
        members=members_of(case, behind),
        ranks=behind,
        affected=members_of(case, ahead),
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
        members=members_of(case, odd),
        ranks=tuple(sorted(odd)),
        affected=members_of(case, stages),
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
        affected=members_of(case, stages),
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


Layer = Literal["ib", "network", "paths", "nvlink", "other"]

LAST_ERROR = "nccl-last-error"
"""The name under which the log reader gives "Last error:"."""
WARNING = r"NCCL WARN (?P<what>\S.*)"
LOST_PEERS = (
    r"ncclRemoteError|remote process exited or there was a network error",
    r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
)
"""With ``WARNING``, patterns of signatures: so the reader of logs has looked for them."""

MAX_WARNINGS = 4
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}
_FAILED = re.compile(r"NCCL (?:[Ee]rror|failure)\b|\bnccl[A-Z]\w+Error: ")
_SAYS_SO = re.compile(
    r"error|fail|invalid|mismatch|unable|cannot|could not|timed? ?out", re.IGNORECASE
)
_LAYERS = {layer: re.compile(words) for layer, words in _WORDS["layers"].items()}
"""Words of a line that tell in which layer of NCCL it was printed."""


@query
def nccl_set_up(case: Case, *, complete: bool) -> tuple[Hit, ...]:
    """Answer if some communicator was set up to its end, or if none was; it is about nobody."""
    done = any(track.kind == "nccl-init" and track.completed for track in case.job.tracks)
    return (Hit(names_culprit=False),) if done is complete else ()


@query
def nccl_warned(case: Case, lines: Sequence[LogLine]) -> Iterable[Hit]:
    """Yield one hit for warnings in unknown words, unless the job went on or ended behind them."""
    return _first(_unknown(case, lines))


@query
def nccl_failed_in(case: Case, layer: Layer) -> Iterable[Hit]:
    """Yield one hit for the first reason of a failed call, in unknown words, if of this layer."""
    reasons = _reasons(case)
    if not reasons:
        return ()
    text = min(reasons, key=_when).text
    named = next((name for name, words in _LAYERS.items() if words.search(text)), "other")
    return _first(reasons) if named == layer else ()


def _reasons(case: Case) -> list[LogLine]:
    """List what NCCL gave as the last error, else warnings, in words that nobody knows.

    None if no call failed. A lost peer is an echo of that one's error, and so is all behind it in
    the same file.
    """
    last = case.job.lines_with((LAST_ERROR,))
    crashed = any(end.signal in CRASHES for s in case.states if (end := s.end) is not None)
    if not (last or crashed or any(_FAILED.search(line.text) for line in case.job.lines)):
        return []
    lost = {
        line.source.file: line.source.line or 0
        for line in reversed(case.job.lines_with(LOST_PEERS))
    }
    warnings = _unknown(case, case.job.lines_with((WARNING,)))
    lines = last or [line for line in warnings if _SAYS_SO.search(line.fields["what"])]
    known = {line.source for line in case.job.lines if set(line.matched) - {WARNING, LAST_ERROR}}
    return [
        line
        for line in lines
        if line.source not in known
        and (not lost or (line.source.line or 0) < lost.get(line.source.file, 0))
    ]


def _first(lines: list[LogLine]) -> Iterator[Hit]:
    """Yield one hit for the words that were printed first."""
    if not lines:
        return
    first = min(lines, key=_when)
    by_words = {(x.fields.get("reason") or x.fields.get("what", "")): x for x in reversed(lines)}
    different = sorted(by_words.values(), key=lambda line: line.source.line or 0)
    what = first.fields.get("reason") or first.fields.get("what", "")
    yield Hit(
        names_culprit=False,
        evidence=cite_lines(different[:MAX_WARNINGS]),
        fields={"what": what.rstrip(". ")},
        at=first.time,
    )


def _unknown(case: Case, lines: Iterable[LogLine]) -> list[LogLine]:
    """List warnings that no signature looks for, and that the job did not go on or end after."""
    if have_ended(case.job):
        return []
    return unanswered(case.job, (line for line in lines if set(line.matched) == {WARNING}))


def _when(line: LogLine) -> tuple[float, int]:
    return (latest(line.time), line.source.line or 0)
