"""Most ranks stand at one line of the program's own code, and few elsewhere in a function of both.

No frame says that anybody waits: the call that does is the program's own, or of a library that
nobody here knows. Of ranks that are looked at because they hang, those that alone stand at another
line have left the call, or have not come to it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from whyhang.analyzer import queries
from whyhang.analyzer.facts import Frame, StackDump
from whyhang.analyzer.findings.signature import INDIRECT
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.stacks.usercode import in_words

BY_HAND = "summary"
"""The tool of a stack that a person, or the report of a program on its own hang, wrote down."""
_OPEN = {WaitKind.WORK, WaitKind.POLL}
"""Kinds of place where no frame says what a rank waits for."""
_LIMIT = re.compile(r"DUE TO TIME LIMIT|time limit for job execution|TERM_RUNLIMIT|: walltime ")
LEAST = 3  # ranks, of which most stand at one place


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the few ranks that stand elsewhere, if all are seen and none goes on."""
    stacks = {m.id: _frames(m.dumps[-1]) for m in case.job.members if m.dumps}
    if case.graph.waiting or case.graph.maybe or not _hangs(case) or len(stacks) < LEAST:
        return
    if not all(s.place is None or s.place.kind in _OPEN for s in case.states):
        return  # what they wait for is known: requests, a thread that trains, a nap
    places: dict[Frame, list[int]] = defaultdict(list)
    for member, frames in stacks.items():
        if not frames:
            return
        places[frames[0]].append(member)
    if len(places) != 2:
        return
    few, many = sorted(places.values(), key=len)
    if 2 * len(few) > len(many) or not all(
        _meet(stacks[member], stacks[many[0]]) for member in few
    ):
        return
    states = [case.states[number] for number in few]
    shown = (*states[:2], case.states[many[0]])
    yield Hit(
        members=tuple(few),
        affected=tuple(many),
        evidence=tuple(e for state in shown for e in queries.evidence_of(case, state)),
        strength=INDIRECT,
        location=queries.location_of(case, states[0]),
        fields={
            "who": case.names(few),
            "others": case.names(many),
            "stand": "stand" if len(few) > 1 else "stands",
            "here": in_words(stacks[few[0]][0]),
            "there": in_words(stacks[many[0]][0]),
        },
    )


def _hangs(case: Case) -> bool:
    """Return whether somebody says so, several snapshots show it, or the job used up its time."""
    dumps = [dump for member in case.job.members for dump in member.dumps]
    by_hand = all(dump.tool == BY_HAND for dump in dumps)
    by_timer = all(dump.tool == "faulthandler" for dump in dumps) and not case.job.exits
    out_of_time = by_timer and any(_LIMIT.search(line.text) for line in case.job.lines)
    stands = case.graph.snapshots > 1 and case.graph.progress is False
    return by_hand or stands or out_of_time


def _meet(few: Sequence[Frame], many: Sequence[Frame]) -> bool:
    """Return whether one of two stacks ends in a function that the other is in, too."""
    inner, outer = {*map(_function, few)}, {*map(_function, many)}
    return _function(few[0]) in outer or _function(many[0]) in inner


def _frames(dump: StackDump) -> tuple[Frame, ...]:
    return dump.threads[0].frames if dump.threads else ()


def _function(frame: Frame) -> tuple[str, str]:
    return (frame.function, frame.file)


SIGNATURE = Signature(
    id="elsewhere-in-own-code",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} {stand} in {here}, all others in {there}",
    when=when,
    means=(
        "{others} stand at one line and do not go on, so what they call there most likely waits "
        "for all ranks. {who} {stand} elsewhere in the code that calls it."
    ),
    confidence="possible",
    remedies=("Find the branch or the loop that takes {who} another way than the others.",),
    next_steps=("py-spy dump --native --pid PID  # of {who} and one other: which call waits?",),
)
