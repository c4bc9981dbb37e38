"""Ranks whose counts of steps differ: left behind by others, in another step, or behind."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, LoopCounter, grouped, replace
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, of_nobody, places_of
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.different_operations import ONE_SIDED, side_in_branch
from whyhang.analyzer.queries.waits.left_loops import only_counts_turns
from whyhang.analyzer.queries.waits.loop_left import in_loop_over_data, loop_left
from whyhang.analyzer.queries.waits.moving import left_behind
from whyhang.analyzer.queries.waits.named_groups import is_of_world
from whyhang.analyzer.queries.waits.states import (
    all_wait,
    await_messages,
    collective_beside,
)
from whyhang.analyzer.rank_state.over_time.beats import usual_step
from whyhang.analyzer.rank_state.over_time.job_progress import Counter
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.stacks import LineText
from whyhang.analyzer.stacks.source_blocks import differs, ends, heads
from whyhang.analyzer.stacks.source_paths import fork
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import beat_of, call_of, path_of, quoted, way_in
from whyhang.analyzer.wording.ways_past import ways_round_in_words


@side("counters_show", what="left-behind")
def _left_behind(case: Case) -> Iterator[Hit]:
    """Yield one hit for the waiting ranks whose loops counted least, if others count on."""
    left = left_behind(case)
    if left is None:
        return
    others = tuple(number for number in left.waiting if number not in left.behind)
    hit = hit_about(
        case,
        left.behind,
        others,
        evidence=(
            *(_cite(case, number, left.counter) for number in (left.behind[0], left.ahead[0])),
            *places_of(case, left.behind[0]),
        ),
        names_culprit=len(left.behind) < len(left.ahead) + len(others),
        collective=call_of(case, left.behind),
        fields={
            "ahead": case.names(left.ahead),
            "have": "have" if len(left.ahead) > 1 else "has",
            "step": f"{left.counter[0]}={left.step}",
            "later": f"{left.counter[0]}={left.last}",
        },
    )
    yield hit if others else replace(hit, affected=left.ahead)


def _cite(case: Case, number: int, of: Counter | None = None) -> Evidence:
    """Cite what a member counts: one counter from look to look, or the first few of its own."""
    member, state = case.member(number), case.states[number]
    counters = [c for c in case.job.of(LoopCounter) if case.job.member_of(c.who) is member]
    if not counters and state.pulse is not None:
        return beat_of(case, state)
    told = dict.fromkeys(f"{c.name} in {c.function} ({c.file}) is {c.value}" for c in counters)
    words = "; ".join([*told][:4])
    if of is not None:
        counters = [c for c in counters if (c.name, c.function, c.file) == of]
        values = " and then ".join(str(value) for value in dict.fromkeys(c.value for c in counters))
        words = f"{of[0]} in {of[1]} ({of[2]}) is {values}"
    file = counters[0].source.file if counters else ""
    return Evidence(source=file, rank=member.rank, quote=words)


_Counts = dict[Counter, int]
NOTED: Counter = ("step", "whyhang.heartbeat", "")


@side("counters_show", what="in-another-step")
def _in_another_step(case: Case) -> Iterator[Hit]:
    """Yield one hit if all ranks wait and the counters of their loops fall into two sides.

    The fewer are to blame, a tie blames nobody.
    """
    return _two_counts(case, of_outer_loop=False)


@side("counters_show", what="in-another-epoch")
def _in_another_epoch(case: Case) -> Iterator[Hit]:
    """Yield the same, where those ahead have come to the end of a loop over data within theirs."""
    return _two_counts(case, of_outer_loop=True)


@side("counters_show", what="past-a-call")
def _past_a_call(case: Case) -> Iterator[Hit]:
    """Yield the same, where those ahead have come past the call in which the others stand.

    They are at the head of the next turn of the loop, and the others at the end of theirs.
    """
    return _two_counts(case, of_outer_loop=False, past_a_call=True)


def _two_counts(case: Case, *, of_outer_loop: bool, past_a_call: bool = False) -> Iterator[Hit]:
    graph = case.graph
    if not _stand_in_one_loop(case):
        return
    counts = _counts(case)
    differing = _differing(counts, {s.member: case.member(s.member).rank for s in case.states})
    if len(counts) != len(case.states) or not differing:
        return
    sides = grouped(counts, lambda number: tuple(counts[number][what] for what in differing))
    if len(sides) != 2:
        return
    few, many = sorted(sides, key=lambda side: len(sides[side]))
    tie = len(sides[few]) == len(sides[many])
    if tie and (alone := side_in_branch(case, [tuple(sides[few]), tuple(sides[many])])):
        tie = False
        few, many = (few, many) if tuple(sides[few]) == alone else (many, few)
    members, affected = tuple(sorted(sides[few])), tuple(sorted(sides[many]))
    if await_messages(case.states[number] for number in members):
        return  # one stage may be a step ahead of the next; who does not send is asked elsewhere
    meeting = next((m for m in graph.operations if members[0] in m.members), None)
    usual = next((m for m in graph.operations if affected[0] in m.members), None)
    behind = {*sides[min(few, many)]}
    if any(m.op in ONE_SIDED for m in graph.operations if behind.intersection(m.members)):
        return  # a rank that is not its root may leave it early, and be a step ahead by right
    if graph.caught & behind and graph.caught - behind:
        return  # in a call of their group; the one ahead whom they wait for there has gone past it
    left_in = case.states[min(behind)]
    ahead = case.states[min(sides[max(few, many)])]
    if in_loop_over_data(case, left_in, {name for name, _, _ in differing}) is not of_outer_loop:
        return
    a_turn = all(abs(a - b) == 1 for a, b in zip(few, many, strict=True))
    if (a_turn and _stands_below(case, left_in, ahead)) is not past_a_call and not of_outer_loop:
        return
    past = _ways_past(case, left_in, differing)
    # Of its group another one may have gone past, and be among those ahead.
    by_way = past_a_call and past != "" and few < many
    tie = tie or (by_way and not is_of_world(case, left_in))
    hit = hit_about(
        case,
        members,
        affected,
        evidence=(
            *(_cite(case, number) for number in (members[0], affected[0])),
            *places_of(case, members[0]),
        ),
        fields={
            "ahead": case.names(sorted(sides[max(few, many)])),
            "have": "have" if len(sides[max(few, many)]) > 1 else "has",
            "theirs": f"{_words(differing, few)}{_in(meeting, unlike=usual)}",
            "usual": f"{_words(differing, many)}{_in(usual, unlike=meeting)}",
            "past": past,
            **_call_passed(case, left_in, sorted(behind)),
            "counts": _words(differing, few),
            "usual_counts": _words(differing, many),
        },
        strength=INCOMPLETE if tie else CLEAR,
        collective=Collective(op=meeting.op) if meeting is not None else None,
    )
    yield of_nobody(hit) if tie else hit


def _stands_below(case: Case, behind: RankState, ahead: RankState) -> bool:
    """Return whether a rank stands further down in the body of the loop that both go round."""
    text = case.text
    forked = fork(path_of(case, behind), path_of(case, ahead))
    if forked is None or (forked[0].line or 0) <= (forked[1].line or 0):
        return False
    shared = {*heads(forked[0], text)} & {*heads(forked[1], text)}
    return any(ends(head, text) is not None for head in shared)


def _call_passed(case: Case, state: RankState, members: Sequence[int]) -> dict[str, str]:
    """Say who stands in the call that others have come past, where, and how it came there."""
    name, library = case.names(members), way_in(case, state)
    through = f", which {library} has called" if library else ""
    at = f" at {in_words(state.user)}" if state.user is not None else ""
    call = state.place.says.call if state.place is not None else "a call"
    stand = "stand" if len(members) > 1 else "stands"
    return {"behind": f"{name} {stand}", "call": f"{call}{at}", "through": through}


def _ways_past(case: Case, state: RankState, differing: list[Counter]) -> str:
    """Say what may lead past the call of a rank that is behind in a loop of its path.

    Lines that lead past it, else the condition that the call stands under.
    """
    text, path = case.text, path_of(case, state)
    for name, function, _ in differing:
        counts = re.compile(rf"\s*(?:async\s+)?for\b.*\b{re.escape(name)}\b.*\bin\b")
        of_function = (frame for frame in path if frame.function == function)
        lines = (head for frame in of_function for head in heads(frame, text))
        loop = next((head for head in lines if counts.match(text(head) or "")), None)
        ways = ways_round_in_words(loop, path, text) if loop is not None else ""
        if ways:
            at = f" at {in_words(path[-1])}" if path else ""
            return f" What may lead past the call{at}: {ways}."
        condition = _condition_within(loop, path, text) if loop is not None else None
        if condition is not None:
            return f" The call stands under {quoted(condition, text)}: did it hold on all ranks?"
    return ""


def _condition_within(loop: Frame, path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the innermost condition around a call, within a loop, that ranks may answer apart."""
    around = [[*heads(frame, text)] for frame in path]
    start = next(n for n, own in enumerate(around) if loop in own)  # it is around one of the frames
    within = [head for own in reversed(around[start:]) for head in own]
    asked = (head for head in within[: within.index(loop)] if differs(text(head) or ""))
    return next((head for head in asked if not only_counts_turns(text(head) or "")), None)


def _stand_in_one_loop(case: Case) -> bool:
    """Return whether all ranks wait and did not move, and none has left the loop of the others.

    Calls of two threads meet in any order, whatever the loops have counted.
    """
    if not all_wait(case) or case.job.absent or len(case.states) < 2:
        return False
    if any(s.status not in IN_STEP or s.motion.moved is not Moved.STILL for s in case.states):
        return False
    if any(collective_beside(state) is not None for state in case.states):
        return False
    return not (any(loop_left(case, by="few")) or any(loop_left(case, by="many")))


def _counts(case: Case) -> dict[int, _Counts]:
    counts: dict[int, _Counts] = defaultdict(dict)
    for number, counters in case.job.by_member(LoopCounter).items():
        for counter in counters:
            variable = (counter.name, counter.function, counter.file)
            counts[number].setdefault(variable, counter.value)
    for state in case.states:
        if state.pulse is not None:
            counts[state.member].setdefault(NOTED, state.pulse.last.step)
    return counts


def _differing(counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]) -> list[Counter]:
    """List what all ranks count and not all alike, without what only follows from their rank."""
    everyone = list(counts.values())
    return [
        what
        for what in (everyone[0] if everyone else {})
        if all(what in c for c in everyone)
        and len({c[what] for c in everyone}) > 1
        and not _by_rank(what, counts, ranks)
    ]


def _by_rank(what: Counter, counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]) -> bool:
    """Return whether each rank may count from its own number: ``range(rank, end, world)``."""
    return len(what[0]) == 1 and all(
        ranks.get(number) is not None and (known[what] - (ranks[number] or 0)) % len(counts) == 0
        for number, known in counts.items()
    )


def _words(differing: list[Counter], values: tuple[int, ...]) -> str:
    named = [f"{name}={value}" for (name, _, _), value in zip(differing, values, strict=True)]
    return ", ".join(dict.fromkeys(reversed(named[:3])))  # a function may be given the step


def _in(meeting: PendingOperation | None, unlike: PendingOperation | None) -> str:
    """Say which call a side is in, where the other side is in another one."""
    if meeting is None or unlike is None or meeting is unlike:
        return ""
    return f" in {meeting.says.call}{meeting.at}"


FEW = 0.5
"""Share of the ranks that may be behind, at most, for them to be the odd ones."""

LATE = 3.0
"""A rank is late once it has been silent so many times as long as its longest step took."""


@side("counters_show", what="steps-behind")
def _steps_behind(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are behind, where nothing else shows what they do."""
    beats = {s.member: s.pulse for s in case.states if s.pulse is not None}
    behind = [
        state
        for state in case.states
        if state.pulse is not None
        and state.pulse.behind
        and state.status in {Status.UNSEEN, Status.RUNNING}
        and not state.pulse.goes_on
    ]
    ahead = tuple(number for number, pulse in beats.items() if not pulse.behind)
    late = sum(pulse.behind > 0 for pulse in beats.values())
    if case.graph.progress or not behind or len(behind) < late or late > FEW * len(beats):
        return
    usual = usual_step(beats.values())
    silent = [pulse.silent_for for pulse in beats.values() if pulse.silent_for is not None]
    if usual is not None and silent and min(silent) <= LATE * usual:
        return  # the next step may be under way
    furthest = max(pulse.last.step for pulse in beats.values())
    least = min(beats[state.member].last.step for state in behind)
    members = [state.member for state in behind]
    yield hit_about(
        case,
        members,
        ahead,
        evidence=[beat_of(case, case.states[number]) for number in (*members, *ahead[:1])],
        fields={"step": f"step {least}", "furthest": str(furthest)},
        strength=CLEAR if silent and usual is not None else INCOMPLETE,
        located=False,
    )
