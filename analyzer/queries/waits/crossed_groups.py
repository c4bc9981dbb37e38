"""All ranks wait in one operation, and the lines of their calls name different groups."""

import re
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, ranks_in_words
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import places_of
from whyhang.analyzer.queries.waits.states import all_seen
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Collective
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import short
from whyhang.analyzer.wording.title_fields import subject_fields

MAX_CALL_LINES = 8
DEFAULT_GROUP = "the default group"

_WORLD = {"None", "dist.group.WORLD", "group.WORLD", "torch.distributed.group.WORLD"}

# dist.all_reduce(x, group=self.tp_group): the argument by name. Given by position, or by a
# helper's own argument, the line says nothing.
_GROUP = re.compile(r"\b(?:process_)?group\s*=\s*(?P<group>[\w.]+(?:\[[^\]]*\])*)")
# A name that any group may have in a function of its own: the same as another's, or not.
_ANY = re.compile(r"(?:\w+\.)*(?:\w|(?:process_)?group|pg|comm|communicator)")
# comm.allreduce(x) of mpi4py: the object itself is the group.
_COMM = r"(?P<group>[\w.]+(?:\[[^\]]*\])*)\s*\.\s*{op}\s*\("


def groups_crossed(case: Case, kind: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if the line of every rank names its group."""
    graph = case.graph
    if graph.lagging or graph.progress or case.job.missing or case.job.absent:
        return
    if not all_seen(case) or any(m.kind is not kind for m in graph.operations):
        return
    states = [case.states[n] for meeting in graph.operations for n in meeting.members]
    by_group: dict[str, list[RankState]] = {}
    for state in states:
        group = _group_of(case, state, kind)
        if group is None:
            return
        by_group.setdefault(group, []).append(state)
    functions = {(f.file, f.function) for s in states if s.place and (f := s.place.user)}
    if len(functions) > 1 and any(map(_ANY.fullmatch, by_group)):
        return
    if len(by_group) > 1:
        yield _crossed_hit(case, by_group)


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
        group = argument["group"]
        return DEFAULT_GROUP if group in _WORLD else group.removeprefix("self.").strip("_")
    # without a keyword the group may still stand there by position
    return DEFAULT_GROUP if text.count(",") == 0 else None


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


def _crossed_hit(case: Case, by_group: dict[str, list[RankState]]) -> Hit:
    sides = sorted(by_group.items(), key=lambda side: side[1][0].member)
    members = tuple(sorted(s.member for states in by_group.values() for s in states))
    words = "; ".join(_side(case, group, states) for group, states in sides)
    first = sides[0][1][0].place
    return Hit(
        affected=members,
        names_culprit=False,
        evidence=tuple(places_of(case, *(states[0].member for _, states in sides))),
        collective=Collective(op=(first.op if first else None) or "a collective"),
        fields={**subject_fields(case, [], members), "sides": words},
    )


def _side(case: Case, group: str, states: list[RankState]) -> str:
    place = states[0].place
    frame = place.user if place is not None else None
    where = f" ({short(frame.file)}:{frame.line})" if frame is not None else ""
    ranks = case.ranks(s.member for s in states)
    who = ranks_in_words(ranks) if ranks else case.names(s.member for s in states)
    op = place.op if place is not None else "a collective"
    return f"{who} in {op} on {group}{where}"
