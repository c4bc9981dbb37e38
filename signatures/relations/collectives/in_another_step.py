"""All ranks stand in one collective, and one of them is in another step of the loop.

A rank that skips a step (an empty batch, a NaN, a caught exception) or makes one more call than
the others does not hang at that place: its next calls meet those of the others one step off,
until two meet that do not fit. By then every rank stands in the same line. The counters of their
loops tell which one is off.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LoopCounter
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE
from whyhang.analyzer.queries import Case, Hit, Moved, Signature
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.wait_graph import PendingOperation

_Variable = tuple[str, str, str]  # name, function and file of what counts
_Counts = dict[_Variable, int]
NOTED: _Variable = ("step", "whyhang.heartbeat", "")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit if all ranks wait and the counters of their loops fall into two sides.

    The fewer are to blame, a tie blames nobody.
    """
    graph = case.graph
    whole = queries.all_seen(case) and not case.job.absent and not case.job.missing
    if graph.progress or graph.lagging or not whole or len(case.states) < 2:
        return
    if any(
        s.status not in queries.WAITERS or s.motion.moved is not Moved.STILL for s in case.states
    ):
        return
    if any(queries.collective_beside(state) is not None for state in case.states):
        return  # calls of two threads meet in any order, whatever the loops have counted
    counts = _counts(case)
    differing = _differing(counts, {s.member: case.member(s.member).rank for s in case.states})
    if len(counts) != len(case.states) or not differing:
        return
    sides: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, known in counts.items():
        sides[tuple(known[what] for what in differing)].append(number)
    if len(sides) != 2:
        return
    few, many = sorted(sides, key=lambda side: len(sides[side]))
    tie = len(sides[few]) == len(sides[many])
    if tie and (alone := queries.side_in_branch(case, [tuple(sides[few]), tuple(sides[many])])):
        tie = False
        few, many = (few, many) if tuple(sides[few]) == alone else (many, few)
    members, affected = tuple(sorted(sides[few])), tuple(sorted(sides[many]))
    states = [case.states[number] for number in members]
    if queries.await_messages(states) and not queries.await_messages(
        case.states[n] for n in affected
    ):
        return  # who has gone past their partner's call: they have not skipped anything
    meeting = next((m for m in graph.operations if members[0] in m.members), None)
    usual = next((m for m in graph.operations if affected[0] in m.members), None)
    if few > many and usual is not None and usual.op in queries.ONE_SIDED:
        return  # a rank that is not its root may leave it early, and be a step ahead by right
    fields = queries.subject_fields(case, states, affected)
    fields |= {
        "theirs": f"{_words(differing, few)}{_in(meeting, unlike=usual)}",
        "usual": f"{_words(differing, many)}{_in(usual, unlike=meeting)}",
    }
    yield Hit(
        members=() if tie else members,
        affected=tuple(sorted((*members, *affected))) if tie else affected,
        names_culprit=not tie,
        strength=INCOMPLETE if tie else CLEAR,
        evidence=(
            *(_cite_counters(case, number) for number in (members[0], affected[0])),
            *queries.evidence_of(case, states[0])[:1],
        ),
        collective=Collective(op=meeting.op) if meeting is not None else None,
        location=queries.location_of(case, states[0]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="in-another-step",
    category="collective-mismatch",
    level="program",
    title="The ranks are in different steps of one loop: {who} at {theirs}, {others} at {usual}",
    when=when,
    means=(
        "Every rank is in a collective, but {who} {is} at {theirs} and {others} at {usual}. Before "
        "that a rank made a call too many or too few, and since then the calls of different steps "
        "meet."
    ),
    confidence="strong",
    remedies=(
        (
            "Look for what lets a rank skip a step or a call: continue, return or except on "
            "rank-local data (an empty batch, a NaN, an error)."
        ),
        "Agree on it first: all_reduce the flag, and let every rank skip or none.",
    ),
    next_steps=(
        "TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run raises at the first mismatch.",
        "TORCH_FR_BUFFER_SIZE=2000 on the next run records what each rank called.",
    ),
    # says why the calls differ
    explains=("collective-mismatch",),
)


def _counts(case: Case) -> dict[int, _Counts]:
    counts: dict[int, _Counts] = defaultdict(dict)
    for counter in case.job.of(LoopCounter):
        member = case.job.member_of(counter.who)
        if member is not None:
            variable = (counter.name, counter.function, counter.file)
            counts[member.id].setdefault(variable, counter.value)
    for state in case.states:
        if state.pulse is not None:
            counts[state.member].setdefault(NOTED, state.pulse.last.step)
    return counts


def _differing(counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]) -> list[_Variable]:
    """List what all ranks count and not all alike, without what only follows from their rank."""
    everyone = list(counts.values())
    common = [
        what for what in (everyone[0] if everyone else {}) if all(what in c for c in everyone)
    ]
    return [
        what
        for what in common
        if len({c[what] for c in everyone}) > 1 and not _by_rank(what, counts, ranks)
    ]


def _by_rank(
    what: _Variable, counts: Mapping[int, _Counts], ranks: Mapping[int, int | None]
) -> bool:
    """Return whether each rank may count from its own number: ``range(rank, end, world)``."""
    return len(what[0]) == 1 and all(
        ranks.get(number) is not None and (known[what] - (ranks[number] or 0)) % len(counts) == 0
        for number, known in counts.items()
    )


def _words(differing: list[_Variable], values: tuple[int, ...]) -> str:
    named = [f"{name}={value}" for (name, _, _), value in zip(differing, values, strict=True)]
    return ", ".join(dict.fromkeys(reversed(named[:3])))  # a function may be given the step


def _in(meeting: PendingOperation | None, unlike: PendingOperation | None) -> str:
    """Say which call a side is in, where the other side is in another one."""
    if meeting is None or unlike is None or meeting is unlike:
        return ""
    return f" in {meeting.says.call}{meeting.at}"


def _cite_counters(case: Case, number: int) -> Evidence:
    member = case.member(number)
    counters = [c for c in case.job.of(LoopCounter) if case.job.member_of(c.who) is member]
    words = "; ".join(f"{c.name} in {c.function} ({c.file}) is {c.value}" for c in counters[:4])
    pulse = case.states[number].pulse
    if not counters and pulse is not None:
        return queries.beat_of(case, case.states[number])
    file = counters[0].source.file if counters else ""
    return Evidence(source=file, rank=member.rank, quote=words)
