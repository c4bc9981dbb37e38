"""Ranks with different numbers of batches: some have left a loop that others are still in."""

import re
from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, grouped, replace
from whyhang.analyzer.findings.signature import Hit
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.left_loops import (
    has_left,
    in_loop_below,
    is_over_data,
    left_blocks,
    loop_between,
    loop_left_in_words,
)
from whyhang.analyzer.queries.waits.named_groups import may_be_of_some
from whyhang.analyzer.queries.waits.states import OF_A_HOLDER, await_messages
from whyhang.analyzer.rank_state.over_time.job_progress import step_counters
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import LineText, WaitKind
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.source_blocks import LOOP, heads, rank_branch
from whyhang.analyzer.stacks.source_paths import apart_by, condition_apart, fork
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS, line_of
from whyhang.analyzer.stacks.ways_out import takers, turned_off
from whyhang.analyzer.wording.describe import call_of, evidence_of, path_of, quoted
from whyhang.analyzer.wording.ways_past import ways_round_in_words

UNEVEN = "Most often the ranks have different numbers of batches."

_FEWER = "the ranks have different numbers of batches."


_WORD = re.compile(r"\w+")


def _loop_over_data(case: Case, inside: list[RankState], outside: list[RankState]) -> bool:
    """Return whether ranks are in a loop over data that the others, further down, have left."""
    if any(s.kind is WaitKind.GROUP for s in outside) or await_messages(inside):
        return False  # who should have come along, or whose partner has gone on
    text = case.text
    path = path_of(case, inside[0])
    forked = fork(path_of(case, outside[0]), path)
    if forked is None or rank_branch(path, text) is not None:
        return False  # a branch for some ranks only holds more than data
    own = any(is_over_data(text(head) or "") for head in left_blocks(text, *forked))
    return own or in_loop_below(text, forked[1], path)


def in_loop_over_data(case: Case, state: RankState, names: set[str]) -> bool:
    """Return whether a rank is in a loop over data within the one that these count.

    Who is ahead of it by them has come to the end of the inner loop first; not where a
    ``continue`` in it, or an error that was taken, may have led past a call.
    """
    text = case.text
    over_data = False
    for frame in reversed(path_of(case, state)):
        inner = frame
        for head in heads(frame, text):
            line = text(head) or ""
            if LOOP.match(line):
                if over_data and names & {*_WORD.findall(line.partition(" in ")[0])}:
                    return True
                body = range(head.line or 0, (inner.line or 0) + 1)
                if any((text(replace(head, line=n)) or "").strip() == "continue" for n in body):
                    return False
                over_data = over_data or is_over_data(line)
            elif any(takers(head, frame, text)):
                return False
            inner = head
    return False


def _sides(
    case: Case, *, smallest: bool = False
) -> tuple[list[RankState], list[RankState], float] | None:
    """Return who is in a loop, who has left it, and how sure that is; None where not all are.

    The larger side is in the loop or, with ``smallest``, the other.
    """
    if case.graph.progress:
        return None
    status = {Status.WAITING, Status.MAYBE, Status.BLOCKED}
    states = [s for s in case.states if s.status in status and s.place is not None]
    # by all lines of their own that they have come through, and how they wait
    places = [*grouped(states, lambda s: (s.status, s.kind, *path_of(case, s))).values()]
    past = {
        (n, m): has_left(case, mine[0], its[0])
        for n, mine in enumerate(places)
        for m, its in enumerate(places)
        if n != m
    }
    loop = [m for m in range(len(places)) if not any(past.get((m, n)) for n in range(len(places)))]
    left = [n for n in range(len(places)) if n not in loop]
    sure = min((past[n, m] for n in left for m in loop), default=0.0)
    # Who has left it has done what most of those in it do, if these have different parts.
    sides = (sorted(side, key=lambda n: -len(places[n])) for side in (loop, left))
    inside, outside = ([s for n in side for s in places[n]] for side in sides)
    fewer, more = (inside, outside) if smallest else (outside, inside)
    if not sure or len(fewer) >= len(more) or any(s.status is Status.BLOCKED for s in inside):
        return None
    if any(s.op == "rpc" for s in more):
        return None  # servers of calls stand at the end of their program
    if _goes_round_ahead(case, inside[0], outside[0]):
        return None
    return inside, outside, sure


def _goes_round_ahead(case: Case, state: RankState, other: RankState) -> bool:
    """Return whether a rank is further in a loop around the one that the other has left.

    It is in there again, and has come past where the other one stands. What counts is the
    variable of a loop that both are in, or one of a function that has called theirs.
    """
    mine, its = path_of(case, state), path_of(case, other)
    forked = fork(mine, its)
    counted = step_counters(case.job)
    if forked is None:
        return False
    text = case.text
    around = {*heads(forked[0], text)} & {*heads(forked[1], text)}
    shared = " ".join((text(head) or "").partition(" in ")[0] for head in around)
    callers = {frame.function for frame in mine[: mine.index(forked[0])]}
    theirs = counted.get(other.member, {})
    return any(
        counter in theirs
        and values[-1] > theirs[counter][-1]
        and (function in callers or re.search(rf"\bfor\b.*\b{name}\b", shared) is not None)
        for counter, values in counted.get(state.member, {}).items()
        for name, function, _ in [counter]
    )


def past_its_partners(case: Case) -> tuple[RankState, str] | None:
    """Return the one rank that has left a loop in which all wait to send to it or receive from it.

    And that loop, in words. Two of them at least: what one offers and another wants it does not
    take and give any more.
    """
    by_rank = case.job.by_rank
    waiting = grouped(
        (
            (case.states[by_rank[position.call.peer]], case.states[by_rank[rank]])
            for rank, position in case.graph.calls.positions.items()
            if position.inside and position.call.peer in by_rank and rank in by_rank
        ),
        lambda pair: pair[0].member,
    )
    left = [
        pairs[0]
        for pairs in waiting.values()
        if len(pairs) > 1 and all(has_left(case, *pair) == 1.0 for pair in pairs)
    ]
    if len(left) != 1:
        return None
    state, partner = left[0]
    return state, loop_left_in_words(case, state, partner) or "the loop"


def _asked_within(text: LineText, past: list[Frame], inside: list[Frame]) -> str:
    """Quote the condition around the call of a loop, if it stands within that loop."""
    condition = condition_apart(inside, past, text)
    in_loop = len(apart_by(inside, past, text)) > 1
    return quoted(condition, text) if condition is not None and in_loop else ""


def _reasons(text: LineText, loop: Frame | None, past: list[Frame], inside: list[Frame]) -> str:
    """Say why the ranks may not have gone round alike; what is seen in the source comes first."""
    if asked := _asked_within(text, past, inside):
        return f"The ranks have different numbers of batches, or {asked} held more often on some."
    if ways := ways_round_in_words(loop, inside, text):
        return f"A turn may have gone by without that call, by {ways}; else {_FEWER}"
    return UNEVEN


def _calls_of_some(case: Case, text: LineText, inside: list[RankState]) -> str:
    """Say which rank in the loop stands under a condition that the first one is not in."""
    first = path_of(case, inside[0])
    for state in inside[1:]:
        if (condition := condition_apart(path_of(case, state), first, text)) is not None:
            there = f"{case.names([state.member])} stands under {quoted(condition, text)}"
            return f" Or the calls under a condition differ: {there}."
    return ""


@query
def loop_left(
    case: Case,
    by: Literal["few", "many", "rank"],
    over: Literal["data", "condition", "any"] = "any",
) -> Iterator[Hit]:
    """Yield one hit if few ranks have left a loop that the others are in, or all but few have.

    Seen in the source: further down, and no deeper than the head of a loop that the others are
    in. Without the source, further down and shutting down says the same, less surely. ``rank``: few
    have, and a branch on the number of the rank led them past the call of the others. ``over``: a
    loop over data around calls of torch alone; or one with a condition, or around those of MPI.
    """
    sides = _sides(case, smallest=by == "many")
    if sides is None or (by == "many" and not _loop_over_data(case, *sides[:2])):
        return
    inside, outside = (tuple(s.member for s in side) for side in sides[:2])
    members, others = (inside, outside) if by == "many" else (outside, inside)
    text = case.text
    # each stage of a pipeline has conditions for what it sends and receives
    asks_rank = by != "many" and not await_messages(sides[0])
    branch = turned_off(path_of(case, sides[0][0]), text) if asks_rank else None
    if (branch is not None) is not (by == "rank"):
        return
    if by == "many" and any(may_be_of_some(case, s) for s in sides[0]):
        return  # of its group another may have left the loop too early
    if any(s.op in OF_A_HOLDER for s in sides[0]):
        return  # they wait for who holds a lock, not for all
    paths = [path_of(case, side[0]) for side in reversed(sides[:2])]
    loop = loop_between(text, *paths)
    of_mpi = all(operation.kind is WaitKind.MPI for operation in case.graph.operations)
    asks = loop is not None and (text(loop) or "").lstrip().startswith("while")
    if over != "any" and (over == "condition") is not (asks or of_mpi):
        return
    evidence = [p for n in (*members, others[0]) for p in evidence_of(case, case.states[n])]
    turns = loop or next((f for f in paths[1] if last_name(f) in COMPREHENSIONS), None)
    fields = {
        "loop": "a loop" if by == "many" else "the loop",
        "uneven": _reasons(text, loop, *paths) + _calls_of_some(case, text, sides[0]),
    }
    if turns is not None:
        fields["loop"] = f"the loop {quoted(turns, text)}"
    if branch is not None:
        fields["branch"] = f"“{(text(branch) or '').strip().rstrip(':')}” ({line_of(branch)})"
    yield hit_about(
        case,
        members,
        others,
        evidence=evidence if by != "many" else places_of(case, members[0], others[0]),
        strength=sides[2],
        collective=call_of(case, inside),
        fields=fields,
        category="mpi-mismatch" if of_mpi else "",
    )
