"""Every rank waits, and their source lines name different groups or communicators.

Ranks of several groups that all wait, none of them lagging, have entered the groups in orders
that do not fit.
"""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, WaitKind
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.stacks.usercode import short

MAX_CALL_LINES = 8
DEFAULT = "the default group"

_WORLD = {"None", "dist.group.WORLD", "group.WORLD", "torch.distributed.group.WORLD"}

# dist.all_reduce(x, group=self.tp_group): the argument by name. Given by position, or by a
# helper's own argument, the line says nothing.
_GROUP = re.compile(r"\b(?:process_)?group\s*=\s*(?P<group>[\w.]+(?:\[[^\]]*\])*)")
# comm.allreduce(x) of mpi4py: the object itself is the group.
_COMM = r"(?P<group>[\w.]+(?:\[[^\]]*\])*)\s*\.\s*{op}\s*\("


def of_collectives(case: Case) -> Iterable[Hit]:
    return _by_source(case, WaitKind.COLLECTIVE)


def of_mpi(case: Case) -> Iterable[Hit]:
    return _by_source(case, WaitKind.MPI)


OF_COLLECTIVES = Signature(
    id="groups-crossed",
    story="""\
All ranks wait in collectives, and their source lines name different groups.

Where no recorder ran, the stacks show everyone inside a collective and nobody late. If the
lines that they stand at pass different groups, ranks that are in several of them have entered
these in orders that do not fit: a circle without a late rank.
""",
    category="cross-group-deadlock",
    level="program",
    title="All ranks wait, on different groups, and none is late: {sides}",
    when=of_collectives,
    means=(
        "Everyone stands in a collective: {sides}. The lines name different groups, so ranks that "
        "are in both wait in one for ranks that wait in the other."
    ),
    confidence="possible",
    remedies=("Enter the groups in one order on every rank.",),
    next_steps=("TORCH_FR_BUFFER_SIZE=2000 on the next run records the order of the calls.",),
    # says why the calls differ
    explains=("collective-mismatch",),
)

OF_MPI = Signature(
    id="mpi-communicators-crossed",
    story="""\
All MPI ranks wait, and their source lines name different communicators.

Two communicators entered in opposite order, or one rank on MPI_COMM_WORLD where the others are
on a part of it. Nobody is late, so nobody can be blamed from the stacks alone.
""",
    category="mpi-mismatch",
    level="program",
    title="All MPI ranks wait, on different communicators: {sides}",
    when=of_mpi,
    means=(
        "Every rank is inside an MPI call: {sides}. The lines name different communicators, so "
        "these calls cannot meet."
    ),
    confidence="likely",
    remedies=("Call collectives on the communicators in one order on every rank.",),
    next_steps=("Compare the lines above: which condition sends the ranks different ways?",),
    # says why the calls differ
    explains=("mpi-mismatch",),
)

SIGNATURES = (OF_COLLECTIVES, OF_MPI)


def _by_source(case: Case, kind: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if the line of every rank names its group."""
    graph = case.graph
    if graph.lagging or graph.progress or case.job.missing or case.job.absent:
        return
    if not queries.all_seen(case) or any(m.kind is not kind for m in graph.operations):
        return
    states = [case.states[n] for meeting in graph.operations for n in meeting.members]
    by_group: dict[str, list[RankState]] = {}
    for state in states:
        group = _group_of(case, state, kind)
        if group is None:
            return
        by_group.setdefault(group, []).append(state)
    if len(by_group) > 1:
        yield _hit(case, by_group)


def _group_of(case: Case, state: RankState, kind: WaitKind) -> str | None:
    place = state.place
    if place is None or place.user is None or not place.certain:
        return None
    text = _call_text(case, place.user)
    if text is None:
        return None
    if kind is WaitKind.MPI:
        if (place.op or "").startswith("wait"):
            return None  # a method of a request, which does not tell its communicator
        name = (place.op or "").replace("_", "")
        call = re.search(_COMM.format(op=re.escape(name)), text, re.IGNORECASE) if name else None
        return call["group"] if call else None
    if not any(name and f"{name}(" in text for name in (place.op, place.api)):
        return None
    argument = _GROUP.search(text)
    if argument:
        return (
            DEFAULT
            if argument["group"] in _WORLD
            else argument["group"].removeprefix("self.").strip("_")
        )
    # without a keyword the group may still stand there by position
    return DEFAULT if text.count(",") == 0 else None


def _call_text(case: Case, frame: Frame) -> str | None:
    """Return the source of the call that a frame stands in, up to its last bracket."""
    for piece in case.job.excerpts:
        start = (frame.line or 0) - piece.first_line
        if piece.file == frame.file and 0 <= start < len(piece.lines):
            text = ""
            for line in piece.lines[start : start + MAX_CALL_LINES]:
                text += line.partition(" #")[0]
                if text.count("(") <= text.count(")"):
                    return text
    return None


def _hit(case: Case, by_group: dict[str, list[RankState]]) -> Hit:
    sides = sorted(by_group.items(), key=lambda side: side[1][0].member)
    members = tuple(sorted(s.member for states in by_group.values() for s in states))
    words = "; ".join(_side(case, group, states) for group, states in sides)
    evidence: list[Evidence] = []
    for _, states in sides:
        evidence += queries.evidence_of(case, states[0])[:1]
    first = sides[0][1][0].place
    return Hit(
        affected=members,
        names_culprit=False,
        evidence=tuple(evidence),
        collective=Collective(op=(first.op if first else None) or "a collective"),
        fields={**queries.subject_fields(case, [], members), "sides": words},
    )


def _side(case: Case, group: str, states: list[RankState]) -> str:
    place = states[0].place
    frame = place.user if place is not None else None
    where = f" ({short(frame.file)}:{frame.line})" if frame is not None else ""
    ranks = case.ranks(s.member for s in states)
    who = queries.ranks_in_words(ranks) if ranks else case.names(s.member for s in states)
    op = place.op if place is not None else "a collective"
    return f"{who} in {op} on {group}{where}"
