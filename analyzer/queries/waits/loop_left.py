"""Ranks with different numbers of batches: some have left a loop that others are still in."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, replace
from whyhang.analyzer.findings.signature import INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.states import OF_A_HOLDER, await_messages
from whyhang.analyzer.rank_state.over_time.job_progress import step_counters
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import LineText, WaitKind
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.source_blocks import (
    heads,
    indent,
    may_be_in_branch,
    may_be_left_within,
    rank_branch,
)
from whyhang.analyzer.stacks.source_paths import apart_by, called_first, fork
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import COMPREHENSIONS, line_of
from whyhang.analyzer.stacks.ways_out import takers, turned_off
from whyhang.analyzer.wording.describe import call_of, evidence_of, path_of, quoted
from whyhang.analyzer.wording.ways_past import ways_round_in_words

UNEVEN = "Most often the ranks have different numbers of batches."
_FEWER = "the ranks have different numbers of batches."

_LOOP = re.compile(r"\s*(?:async\s+)?(?:for|while)\b")

_WHILE = re.compile(r"\s*while\b")
_IF = re.compile(r"\s*(?:el)?if\b")
_WORD = re.compile(r"\w+")
_HANDLER = re.compile(r"\s*(?:finally|except\b.*):")
_IN_BRACKETS = re.compile(r"\bfor\b.*")

_OF_A_MODEL = re.compile(
    r"param|grad|bucket|tensor|layer|module|weight|buffer|rank|world|group"
    r"|handle|request|future|pending|\bworks?\b|callback|hook|plugin|listener|metric",
    re.IGNORECASE,
)
"""A loop over parts of a model, ranks or calls: to be out of it is to be further in the step."""
_LITERAL = re.compile(r"\bin\s*(?:[(\[]\s*[\"'\d]|range\([\d_,\s]+\)\s*:)")
"""What a loop goes over that is written there, and so the same on all ranks."""

_SHARE = re.compile(r"\b(?!(?:range|len|enumerate|zip|reversed|sorted|list)\()\w+\([^()]*\)")
"""A call that is looped over: what it is given may be the rank, for its share of the data."""


def _loop_over_data(case: Case, inside: list[RankState], outside: list[RankState]) -> bool:
    """Return whether ranks are in a loop over data that the others, further down, have left."""
    create = any(s.place is not None and s.place.kind is WaitKind.GROUP for s in outside)
    if create or await_messages(inside):
        return False  # who should have come along, or whose partner has gone on
    text = source_lines(case.job.excerpts)
    path = path_of(case, inside[0])
    forked = fork(path_of(case, outside[0]), path)
    if forked is None or rank_branch(path, text) is not None:
        return False  # a branch for some ranks only holds more than data
    own = any(_is_over_data(text(head) or "") for head in _left(text, *forked))
    return own or _in_loop_below(text, forked[1], path)


def _left(text: LineText, past: Frame, inside: Frame) -> Iterator[Frame]:
    """Yield the heads of the blocks that ``inside`` is in, and ``past``, further down, is not."""
    here = text(past)
    depth = indent(here) if here is not None else 0
    return (head for head in heads(inside, text) if indent(text(head) or "") >= depth)


def in_loop_over_data(case: Case, state: RankState, names: set[str]) -> bool:
    """Return whether a rank is in a loop over data within the one that these count.

    Who is ahead of it by them has come to the end of the inner loop first; not where a
    ``continue`` in it, or an error that was taken, may have led past a call.
    """
    text = source_lines(case.job.excerpts)
    over_data = False
    for frame in reversed(path_of(case, state)):
        inner = frame
        for head in heads(frame, text):
            line = text(head) or ""
            if _LOOP.match(line):
                if over_data and names & {*_WORD.findall(line.partition(" in ")[0])}:
                    return True
                body = range(head.line or 0, (inner.line or 0) + 1)
                if any((text(replace(head, line=n)) or "").strip() == "continue" for n in body):
                    return False
                over_data = over_data or _is_over_data(line)
            elif any(takers(head, frame, text)):
                return False
            inner = head
    return False


def _is_over_data(line: str) -> bool:
    called = [call.partition("(")[0] for call in _SHARE.findall(line)]
    over = " ".join((_SHARE.sub("", line), *called))
    return _LOOP.match(line) is not None and _OF_A_MODEL.search(over) is None


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
    places = list(_by_place(case, states).values())
    past = {
        (n, m): _past(case, mine[0], its[0])
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
    if any(s.place is not None and s.place.op == "rpc" for s in more):
        return None  # servers of calls stand at the end of their program
    if _goes_round_ahead(case, inside[0], outside[0]):
        return None
    return inside, outside, sure


def _by_place(case: Case, states: list[RankState]) -> dict[object, list[RankState]]:
    """Group ranks by all lines of their own that they have come through, and how they wait."""
    groups: dict[object, list[RankState]] = {}
    for state in states:
        kind = state.place.kind if state.place is not None else None
        groups.setdefault((state.status, kind, *path_of(case, state)), []).append(state)
    return groups


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
    text = source_lines(case.job.excerpts)
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
    waiting: dict[int, list[RankState]] = {}
    by_rank = case.job.by_rank
    for rank, position in case.graph.calls.positions.items():
        if position.inside and position.call.peer in by_rank and rank in by_rank:
            peer = by_rank[position.call.peer]
            waiting.setdefault(peer, []).append(case.states[by_rank[rank]])
    left = [
        (case.states[member], partners[0])
        for member, partners in waiting.items()
        if len(partners) > 1
        and all(_past(case, case.states[member], partner) == 1.0 for partner in partners)
    ]
    if len(left) != 1:
        return None
    state, partner = left[0]
    text = source_lines(case.job.excerpts)
    loop = _loop_between(text, path_of(case, state), path_of(case, partner))
    return state, f"the loop {quoted(loop, text)}" if loop is not None else "the loop"


def went_on(case: Case, state: RankState, other: RankState) -> bool:
    """Return whether a rank has left the loop of another, and neither has a part of its own."""
    text = source_lines(case.job.excerpts)
    own = any(rank_branch(path_of(case, each), text) for each in (state, other))
    return not own and _past(case, state, other) == 1.0


def _past(case: Case, state: RankState, other: RankState) -> float:
    """Return how sure it is that ``state`` has left the loop of ``other``; 0 is: not at all."""
    text = source_lines(case.job.excerpts)
    forked = fork(path_of(case, state), path_of(case, other))
    if forked is None:
        caller = called_first(path_of(case, state), path_of(case, other), text)
        in_loop = caller is not None and _in_loop_below(text, caller, path_of(case, other))
        return 1.0 if in_loop and state.status in {Status.WAITING, Status.MAYBE} else 0.0
    mine, its = forked
    if mine.line is None or its.line is None or mine.line <= its.line:
        return 0.0
    here, there = text(mine), text(its)
    if here is not None and there is not None:
        around = {*heads(mine, text)}
        apart = around - {*heads(its, text)}
        if any(_HANDLER.match(text(head) or "") for head in apart):
            return 0.0  # an exception may have led there, and not the end of the data
        again = any(_LOOP.match(text(head) or "") for head in around - apart)
        if again and (state.status is Status.BLOCKED or rank_branch([mine], text) in apart):
            return 0.0  # the others came past what holds it up, and may have come around again
        left = _leaves_loop(text, its, indent(here)) or any(
            _is_over_data(text(head) or "") and not _is_as_long_for_all(text, head, its)
            for head in heads(its, text)
            if head not in around
        )
        waits = state.status in {Status.WAITING, Status.MAYBE}
        own_part = _is_part_of_some([its], text)
        below = waits and not own_part and _in_loop_below(text, its, path_of(case, other))
        return 1.0 if left or below else 0.0
    # A barrier further down may as well be the bug itself; shutting down is past any loop.
    return INCOMPLETE if state.place is not None and state.place.kind is WaitKind.TEARDOWN else 0.0


_PICKED = re.compile(r"\]\s*\(|\bif\b.*\belse\b|(?i:rank|role)")


def _is_part_of_some(path: Sequence[Frame], text: LineText) -> bool:
    """Return whether a line may call what only some ranks run: by their numbers, in a branch."""
    return may_be_in_branch(path, text) or any(_PICKED.search(text(f) or "") for f in path)


def _leaves_loop(text: LineText, inside: Frame, to: int) -> bool:
    """Return whether going from a line out to an indent leaves a loop, not only ifs and withs.

    Where the source is not kept that far, being less deep has to do.
    """
    depth = indent(text(inside) or "")
    for head in heads(inside, text):
        line = text(head) or ""
        depth = indent(line)
        if depth < to:
            return False
        if _LOOP.match(line) and not _is_as_long_for_all(text, head, inside):
            return True
    return to < depth


def _is_as_long_for_all(text: LineText, loop: Frame, inside: Frame) -> bool:
    """Return whether a loop goes over what is written there, and nothing seen in it leaves it."""
    literal = _LITERAL.search(text(loop) or "")
    return literal is not None and not may_be_left_within(loop, inside, text)


def _in_loop_below(text: LineText, caller: Frame, path: list[Frame]) -> bool:
    """Return whether the function that a line calls is in a loop over data, for one rank.

    Who is behind that line has come back from it, and so out of its loop.
    """
    below = path[path.index(caller) + 1 :]
    if not below or (last_name(below[0]) == "forward" and "forward(" not in (text(caller) or "")):
        return False  # a module, which is called by itself, goes over its parts
    if last_name(below[0]) in COMPREHENSIONS:
        match = _IN_BRACKETS.search(text(below[0]) or "")
        return match is not None and not _LITERAL.search(match[0]) and _is_over_data(match[0])
    loops = (
        text(head) or ""
        for head in _loops_around(below, text)
        if not _is_as_long_for_all(text, head, below[0])
    )
    return _is_over_data(next(loops, ""))


YIELDS = 8  # lines around the place of a generator in which it gives something


def _loops_around(path: Sequence[Frame], text: LineText) -> Iterator[Frame]:
    """Yield the loops that the first frame of a path is in, innermost first.

    The one at whose head it stands as well, where what that calls is a generator.
    """
    frame, *below = path
    around = range(-YIELDS, YIELDS)
    near = (replace(f, line=max(1, (f.line or 0) + n)) for f in below[:1] for n in around)
    if any(re.search(r"\byield\b", text(line) or "") for line in near):
        yield from (head for head in [frame] if _LOOP.match(text(head) or ""))
    yield from (head for head in heads(frame, text) if _LOOP.match(text(head) or ""))


def _loop_between(text: LineText, past: list[Frame], inside: list[Frame]) -> Frame | None:
    """Return the head of the outermost loop that one rank is in and the other has left."""
    forked = fork(past, inside)
    caller = called_first(past, inside, text) if forked is None else None
    if caller is not None:
        forked = (caller, caller)
    if forked is None:
        return None
    own = [head for head in _left(text, *forked) if head not in {*heads(forked[0], text)}]
    below = inside[inside.index(forked[1]) + 1 :]
    paths = (below[number:] for number in range(len(below)))
    loops = (*reversed(own), *(h for path in paths for h in reversed([*_loops_around(path, text)])))
    return next((head for head in loops if _LOOP.match(text(head) or "")), None)


def loop_that_others_left(case: Case, state: RankState, other: RankState) -> str:
    """Return the loop that ``other`` is in and ``state`` has left, in words; empty for none."""
    if not went_on(case, state, other):
        return ""
    text = source_lines(case.job.excerpts)
    loop = _loop_between(text, path_of(case, state), path_of(case, other))
    return f"the loop {quoted(loop, text)}" if loop is not None else ""


def _asked_within(text: LineText, past: list[Frame], inside: list[Frame]) -> str:
    """Quote the condition around the call of a loop, if it stands within that loop."""
    blocks = apart_by(inside, past, text)
    asks = [block for block in blocks if _IF.match(text(block) or "")]
    return quoted(asks[0], text) if asks and blocks[0] is asks[0] and len(blocks) > 1 else ""


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
        blocks = apart_by(path_of(case, state), first, text)
        asks = [block for block in blocks if _IF.match(text(block) or "")]
        if asks:
            there = f"{case.names([state.member])} stands under {quoted(asks[0], text)}"
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
    text = source_lines(case.job.excerpts)
    # each stage of a pipeline has conditions for what it sends and receives
    asks_rank = by != "many" and not await_messages(sides[0])
    branch = turned_off(path_of(case, sides[0][0]), text) if asks_rank else None
    if (branch is not None) is not (by == "rank"):
        return
    if any(s.place is not None and s.place.op in OF_A_HOLDER for s in sides[0]):
        return  # they wait for who holds a lock, not for all
    paths = [path_of(case, side[0]) for side in reversed(sides[:2])]
    loop = _loop_between(text, *paths)
    of_mpi = all(operation.kind is WaitKind.MPI for operation in case.graph.operations)
    asks = loop is not None and _WHILE.match(text(loop) or "") is not None
    if over != "any" and (over == "condition") is not (asks or of_mpi):
        return
    evidence = [p for n in (*members, others[0]) for p in evidence_of(case, case.states[n])]
    hit = hit_about(
        case,
        members,
        others,
        evidence=evidence if by != "many" else places_of(case, members[0], others[0]),
        strength=sides[2],
        collective=call_of(case, inside),
        fields={"loop": "a loop" if by == "many" else "the loop"},
    )
    if of_mpi:
        hit = replace(hit, category="mpi-mismatch")
    uneven = _reasons(text, loop, *paths) + _calls_of_some(case, text, sides[0])
    hit = replace(hit, fields={**hit.fields, "uneven": uneven})
    turns = loop or next((f for f in paths[1] if last_name(f) in COMPREHENSIONS), None)
    if turns is not None:
        hit = replace(hit, fields={**hit.fields, "loop": f"the loop {quoted(turns, text)}"})
    if branch is not None:
        line = f"“{(text(branch) or '').strip().rstrip(':')}” ({line_of(branch)})"
        hit = replace(hit, fields={**hit.fields, "branch": line})
    yield hit
