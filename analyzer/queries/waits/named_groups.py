"""Groups by the names that source lines and variables give them: those crossed, and own ones."""

import re
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives.shared_calls import WORLD
from whyhang.analyzer.facts import CallArgument, grouped, ranks_in_words, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.job.store_keys import joined
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.left_loops import came_past_in_words
from whyhang.analyzer.queries.waits.states import all_wait
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.report import Collective
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.named_group import (
    DEFAULT_GROUP,
    call_text,
    is_of_all_ranks,
    leaves_group_open,
    named_group,
)
from whyhang.analyzer.stacks.source_blocks import rank_branch
from whyhang.analyzer.stacks.usercode import line_of, short
from whyhang.analyzer.wording.describe import path_of

_OF_TORCH = {WaitKind.COLLECTIVE, WaitKind.P2P}

# A name that any group may have in a function of its own: the same as another's, or not.
_ANY = re.compile(r"(?:\w+\.)*(?:\w|(?:process_)?group|pg|comm|communicator)")


@query
def groups_crossed(case: Case, kind: WaitKind) -> Iterator[Hit]:
    """Yield one hit if the line of every rank names its group.

    It blames nobody, but for those that stand in a call on the group of all ranks behind a
    condition on the number of their rank: such a call the others never come to.
    """
    operations = case.graph.operations
    if not all_wait(case) or case.job.absent or any(m.kind is not kind for m in operations):
        return
    if case.graph.caught:
        return  # whose groups they are is known better than by their names
    states = [case.states[n] for meeting in operations for n in meeting.members]
    by_group = grouped(states, lambda state: _group_of(case, state) or "")
    functions = {(state.user.file, state.user.function) for state in states if state.user}
    if "" in by_group or (len(functions) > 1 and any(map(_ANY.fullmatch, by_group))):
        return
    if len(by_group) < 2:
        return
    calls = grouped(states, lambda state: (_group_of(case, state) or "", state.user))
    sides = sorted(calls.items(), key=lambda side: side[1][0].member)
    odd = _alone_with_all(case, by_group)
    first = case.states[odd[0]] if odd else sides[0][1][0]
    yield hit_about(
        case,
        odd,
        sorted(state.member for state in states if state.member not in odd),
        shown=[*odd[:1], *(states[0].member for _, states in sides)],
        evidence=places_of(case, *(states[0].member for _, states in sides)),
        fields={
            "sides": "; ".join(_side(case, group, states) for (group, _), states in sides),
            "past": _past_in_words(case, [states for _, states in sides]),
        },
        collective=Collective(op=first.op or "a collective"),
        located=bool(odd),
    )


def _past_in_words(case: Case, sides: Sequence[Sequence[RankState]]) -> str:
    """Say which of two sides has come past the call of the other; empty for more than two."""
    if len(sides) != 2:
        return ""
    one, other = ([state.member for state in states] for states in sides)
    return came_past_in_words(case, one, other)


def _alone_with_all(case: Case, by_group: Mapping[str, Sequence[RankState]]) -> tuple[int, ...]:
    """Return who is in a call on the group of all ranks, to which a condition on the rank led."""
    for group, states in by_group.items():
        paths = [path_of(case, state) for state in states]
        if is_of_all_ranks(group) and all(rank_branch(path, case.text) for path in paths):
            return tuple(state.member for state in states)
    return ()


def is_of_world(case: Case, state: RankState) -> bool:
    """Return whether the line of a rank's collective says that it is one of all ranks."""
    group = _group_of(case, state)
    return group is not None and is_of_all_ranks(group)


def may_be_of_some(case: Case, state: RankState) -> bool:
    """Return whether the line of a rank's collective names a group that may be of some ranks."""
    group = _group_of(case, state) if state.kind is WaitKind.COLLECTIVE else None
    return group is not None and not is_of_all_ranks(group)


def _group_of(case: Case, state: RankState) -> str | None:
    place = state.place
    if place is None or place.user is None or not place.certain:
        return None
    given = _group_given(case, state)
    return given if given is not None else named_group(place, case.text)


def _group_given(case: Case, state: RankState) -> str | None:
    """Return the group that a rank's call was given, where its variables tell which one it is."""
    at = (short(state.user.file), state.user.line) if state.user is not None else None
    given = [
        fact.value
        for fact in case.job.of(CallArgument)
        if fact.name in {"group", "process_group"}
        and fact.stands
        and (fact.file, fact.line) == at
        and case.job.member_of(fact.who) == case.member(state.member)
    ]
    return given[-1].removeprefix("self.").strip("_") if given else None


def in_its_group(case: Case, collective: Collective | None) -> Collective | None:
    """Return a call with the name of its group, where no record tells it but all ranks in it do.

    By their source lines or variables; or the job's store shows that none but the default group
    was made.
    """
    if collective is None or collective.group is not None:
        return collective
    own = [meeting for meeting in case.graph.operations if meeting.op == collective.op]
    named = {_group_of(case, case.states[number]) for meeting in own for number in meeting.members}
    name = named.pop() if len(named) == 1 else None
    of_torch = own and all(meeting.kind in _OF_TORCH for meeting in own)
    if name == DEFAULT_GROUP or (name is None and of_torch and _has_one_group(case)):
        name = WORLD
    known = name is not None and not _ANY.fullmatch(name)
    return replace(collective, group=name) if known else collective


def _has_one_group(case: Case) -> bool:
    """Return whether the keys of the job's store are of the default group alone."""
    groups = [group for view in case.job.stores if view.complete for group in joined(view)]
    return bool(groups) and all(group.default for group in groups)


def names_its_own_group(case: Case, one: RankState, others: Sequence[RankState]) -> bool:
    """Return whether the line of a rank names a group, and those of the others name another one.

    Who belongs to it the lines do not tell: it may wait there for a rank that is among the others.
    """
    if len({state.kind for state in (one, *others)} - {None}) != 1:
        return False
    mine = _group_of(case, one)
    if mine in {None, DEFAULT_GROUP} or _ANY.fullmatch(mine or ""):
        return False
    return all(_group_of(case, other) not in {None, mine} for other in others)


def group_is_open(case: Case, state: RankState) -> bool:
    """Return whether a rank's call gives a group that may be another on each rank.

    So its line says, and no variable tells which it is.
    """
    line = call_text(state.user, case.text) if state.user is not None else None
    return line is not None and leaves_group_open(line) and _group_given(case, state) is None


def _side(case: Case, group: str, states: list[RankState]) -> str:
    first = states[0]
    where = f" ({line_of(first.user)})" if first.user is not None else ""
    ranks = case.ranks(s.member for s in states)
    who = ranks_in_words(ranks) if ranks else case.names(s.member for s in states)
    return f"{who} in {first.op} on {group}{where}"
