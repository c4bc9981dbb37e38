"""What parts ranks: the line, and from the source the condition or loop, the way past a call."""

import re
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.stacks import LineText, WaitKind
from whyhang.analyzer.stacks.kinds import EXIT, last_name
from whyhang.analyzer.stacks.source_blocks import (
    BRANCH,
    FUNCTION,
    LOOP,
    heads,
    indent,
    is_kept_out,
    lines_at,
    rank_branch,
    unasked,
)
from whyhang.analyzer.stacks.source_paths import (
    apart_by,
    comes_first,
    condition_apart,
    fork,
    two_calls,
)
from whyhang.analyzer.stacks.usercode import in_words, short
from whyhang.analyzer.stacks.ways_out import errors_passed, ways_out, ways_round
from whyhang.analyzer.wording.describe import frames_of, path_of, quoted

_ASKS = re.compile(r"\s*(?:(?:el)?if|while)\b")
_WHILE = re.compile(r"\s*while (?!True\b|1\b)")
"""A loop that says what it goes on for."""


def divergence(case: Case, culprits: Sequence[int], others: Sequence[int]) -> str | None:
    """Name the innermost frame that culprits and waiting ranks share, or None.

    Read from the outside in: the program is the same up to there, and then it is not.
    """
    if not culprits or not others:
        return None
    a, b = (frames_of(case.member(each[0]))[::-1] for each in (culprits, others))
    if [(f.function, f.file, f.line) for f in a] == [(f.function, f.file, f.line) for f in b]:
        return None
    shared: Frame | None = None
    for depth, (mine, its) in enumerate(zip(a, b, strict=False)):
        if (mine.function, short(mine.file)) != (its.function, short(its.file)):
            break
        shared = mine
        if mine.line != its.line:
            here = f"{case.names(_at(case, culprits, depth, mine))} at line {mine.line}"
            there = f"{case.names(_at(case, others, depth, its))} at line {its.line}"
            return f"{mine.function} ({short(mine.file)}): {here}, {there}"
    return in_words(shared) if shared is not None else None


def _at(case: Case, members: Sequence[int], depth: int, frame: Frame) -> list[int]:
    """Return which of some members have this frame so far in from the outermost, as the first."""
    paths = {n: frames_of(case.member(n))[::-1] for n in members}
    return [n for n in members if n == members[0] or frame in paths[n][depth : depth + 1]]


def branch_in_words(
    case: Case, members: Sequence[int], others: Sequence[int] = (), said: str = ""
) -> str:
    """Return in which branch on its rank's number, or in whose call, the first member stands.

    And what it asks for as it sleeps between two turns of a loop. Where the rank's number is not
    asked for, the condition or the loop that ``others`` are not in. Without what was ``said``
    already; empty where nothing tells: most calls stand in the program.
    """
    text = case.text
    state = case.states[members[0]]
    path = path_of(case, state)
    there = f"{case.names(members)} {'are' if len(members) > 1 else 'is'} there"
    words = []
    head = rank_branch(path, text)
    apart = apart_by(path, path_of(case, case.states[others[0]]) if others else (), text)
    if state.status not in {Status.WAITING, Status.MAYBE}:  # a loop does not hold it up
        apart = [block for block in apart if _ASKS.match(text(block) or "")]
    if head is not None:
        apart = [head, *(block for block in apart if not BRANCH.match(text(block) or ""))]
    sleeps = state.place is not None and state.place.kind is WaitKind.SLEEP
    around = [*heads(path[-1], text)] if path and sleeps else []
    slept = next((each for each in around if _WHILE.match(text(each) or "")), None)
    for block in apart:
        if block != slept and quoted(block, text) not in said:
            into = "under" if BRANCH.match(text(block) or "") else "in the loop"
            is_above = block == head and all(block not in heads(frame, text) for frame in path)
            where = f"past {quoted(block, text)}, by which others leave"
            words.append(f"{there} {where if is_above else f'{into} {quoted(block, text)}'}")
    if slept is not None:
        sleep = "sleep" if len(members) > 1 else "sleeps"
        words.append(f"{case.names(members)} {sleep} in the loop {quoted(slept, text)}")
    if around and (handler := _retries(path[-1], text)) is not None:
        tries = "try" if len(members) > 1 else "tries"
        words.append(f"{case.names(members)} {tries} again after an error: {quoted(handler, text)}")
    exits = [s.place is not None and s.place.main_op == EXIT for s in case.states]
    if path and exits[members[0]] and not any(exits[n] for n in others):  # else they are cut
        words.append(f"{there} at the end of the program: Python has called {in_words(path[0])}")
    if (called := unasked(path, text)) and in_words(called[0]) not in said:
        words.append(f"{there} in {called[1]}, {in_words(called[0])}, which runs at any line")
    return "; ".join(words)


_EXCEPT = re.compile(r"\s*except\b")


def _retries(frame: Frame, text: LineText) -> Frame | None:
    """Return the handler of an exception that a frame is in, or came out of, within a loop.

    Below a ``try`` that is left where it succeeds, only who failed comes by.
    """
    depth = indent(text(frame) or "")
    handler, inside, leaves = None, True, False
    for at, line in lines_at(frame, range((frame.line or 1) - 1, 0, -1), text):
        own = line.lstrip()
        leaves = leaves or (handler is not None and own.startswith(("return", "break")))
        if not own or indent(line) > depth:
            continue
        if own.startswith(FUNCTION):
            return None
        if handler is None and _EXCEPT.match(line):
            handler, inside = at, indent(line) < depth
        elif indent(line) < depth and LOOP.match(line):
            return handler if inside or leaves else None
        depth = indent(line)
    return None


def passed_in_words(
    case: Case, members: Sequence[int], others: Sequence[int], said: str = ""
) -> str:
    """Say what may have led the first member past the call of others; empty where nothing tells.

    Or where it was ``said`` already. It has left by one of the ways that lead past their call, or a
    condition around the call did not hold for it.
    """
    return left_in_words(case, members, others, said) or kept_in_words(case, members, others)


def left_in_words(case: Case, members: Sequence[int], others: Sequence[int], said: str = "") -> str:
    """Say by which way out of their function or loop the first member may have left others behind.

    It stands further down than they do, or in the next turn of a loop. Empty where nothing tells,
    or it was ``said`` already.
    """
    text = case.text
    its = path_of(case, case.states[others[0]])
    members = [n for n in members if not _is_kept_out(case, n, its)]
    if not members:
        return ""
    mine = path_of(case, case.states[members[0]])
    forked = fork(mine, its)
    name, several = case.names(members), len(members) > 1
    if forked is None:
        in_turn = two_calls(mine, its, text)
        ways = _ways_out(its[its.index(in_turn[1]) :], text) if in_turn is not None else []
        return f"; {name} may have come past that call by {_left_by(ways)}" if ways else ""
    has, it = ("have", "they") if several else ("has", "it")
    if _leaves_with(mine, forked, text):
        left = quoted(forked[0], text)
        if left in said:
            return ""
        still = f"that {case.names(others)} {'are' if len(others) > 1 else 'is'} still in"
        return (
            f"; {name} {has} left {left} {still}, perhaps by an exception that is not printed yet"
        )
    if (forked[0].line or 0) <= (forked[1].line or 0):
        again = [(quoted(a, text), quoted(b, text)) for a, b in ways_round_again(mine, its, text)]
        come = f"; {name} {has} come to this line again without that call: {it} may have left by "
        return f"{come}{_left_by(again)}" if again else ""
    ways = _ways_out(its[its.index(forked[1]) + 1 :], text)
    if not ways or any((condition or way) in said for way, condition in ways):
        return ""
    return f"; {name} {has} come past that call: {it} may have left by {_left_by(ways)}"


_WITH = re.compile(r"\s*(?:async\s+)?with\b")


def _leaves_with(path: Sequence[Frame], forked: tuple[Frame, Frame], text: LineText) -> bool:
    """Return whether a path goes through the end of a ``with`` that the other one is inside of."""
    head, inside = forked
    below = path[path.index(head) + 1 :]
    ends = any(last_name(frame) in {"__exit__", "__aexit__"} for frame in below)
    return ends and _WITH.match(text(head) or "") is not None and head in heads(inside, text)


def _is_kept_out(case: Case, number: int, path: Sequence[Frame]) -> bool:
    rank = case.member(number).rank
    return rank is not None and is_kept_out(rank, path, case.text)


def kept_in_words(case: Case, members: Sequence[int], others: Sequence[int]) -> str:
    """Name the condition that others stand under, and the first member, further down, does not."""
    text = case.text
    mine, its = (path_of(case, case.states[each[0]]) for each in (members, others))
    forked = fork(mine, its)
    if forked is None or (forked[0].line or 0) <= (forked[1].line or 0):
        return ""
    if _ways_out(its[its.index(forked[1]) + 1 :], text):
        return ""  # they say more
    asks = condition_apart(its, mine, text)
    there = f"{case.names(others)} {'stand' if len(others) > 1 else 'stands'} there"
    return f"; {there} under {quoted(asks, text)}" if asks is not None else ""


def ways_round_again(
    mine: Sequence[Frame], its: Sequence[Frame], text: LineText
) -> list[tuple[Frame, Frame]]:
    """Return by what, and on which condition, a rank may have come to its call once more.

    The other one, further down, has come through that call with it, and all must make both: then
    the rank has left the function, or a turn of its loop, in between. Empty where nothing tells.
    """
    forked = fork(mine, its)
    if forked is None or not comes_first(mine, its, text):
        return []
    below = its[its.index(forked[1]) :]
    since = forked[0].line or 0
    return [
        (way, asks)
        for frame in below
        for way, asks in ways_out(frame, text)
        if frame != below[0] or (way.line or 0) > since
    ]


def ended_past_in_words(case: Case, members: Sequence[int], others: Sequence[int]) -> str:
    """Say how the first member may have come past the call of others to the end of its program.

    Empty where it is not there, or nothing tells.
    """
    state = case.states[members[0]]
    place = state.place
    if place is None or path_of(case, state):
        return ""
    if place.kind is not WaitKind.TEARDOWN and not {"finalize", EXIT} & {place.op, place.main_op}:
        return ""
    path = path_of(case, case.states[others[0]])
    ways = _ways_out(path, case.text)
    if not ways:
        return ""
    there = in_words(path[-1])
    name = case.names(members)
    return f" {name.capitalize()} may have come past {there} by {_left_by(ways)}."


def may_be_left_out(case: Case, number: int, other: int) -> bool:
    """Return whether a way leads past the call of a member, by which ``other`` came to a later one.

    Below the line at which their paths part, as two calls of one operation.
    """
    mine, its = (path_of(case, case.states[n]) for n in (number, other))
    parts = two_calls(mine, its, case.text)
    if parts is None:
        return False
    below = mine.index(parts[0]) + (parts[0].function == parts[1].function)
    return bool(_ways_out(mine[below:], case.text))


def ways_before_in_words(case: Case, number: int) -> str:
    """Quote what leads out of a member's functions before its call; empty if nothing does."""
    path = path_of(case, case.states[number])
    return _left_by(_ways_out(path, case.text))


def _ways_out(path: Sequence[Frame], text: LineText) -> list[tuple[str, str]]:
    """Quote what may lead out of these functions without their last call, and its condition."""
    ways = [way for frame in path for way in ways_out(frame, text)]
    errors = [way for frame in path for way in errors_passed(frame, text)]
    quotes = [(quoted(way, text), quoted(condition, text)) for way, condition in ways]
    return [*quotes, *((quoted(way, text), "") for way in errors)]


def _left_by(ways: Sequence[tuple[str, str]]) -> str:
    quotes = dict.fromkeys(f"{way} under {asks}" if asks else way for way, asks in ways)
    return " or ".join([*quotes][:2])


def ways_round_in_words(loop: Frame | None, path: Sequence[Frame], text: LineText) -> str:
    """Quote what may have a turn of a loop go by without the call of a path; empty if nothing.

    None: the loop is that of a comprehension.
    """
    return _left_by([(quoted(way, text), "") for way in ways_round(loop, path, text)])
