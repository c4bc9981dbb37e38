"""Sends and receives that stacks show and that do not pair."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import Setting, replace
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.left_loops import came_past_in_words
from whyhang.analyzer.queries.waits.loop_left import loop_left
from whyhang.analyzer.queries.waits.message_partners import ring_in_words, ring_of
from whyhang.analyzer.queries.waits.states import all_recorded, all_wait, count
from whyhang.analyzer.rank_state.over_time.job_progress import counts_more, step_counters
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.report import Collective, cite
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.source_blocks import lines_above
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import evidence_of, path_of


@query
def unpaired_by_stacks(case: Case) -> Iterator[Hit]:
    """Yield one hit if ranks wait to receive and none to send, or the other way round.

    All others wait so as well or stand in collectives, the partner among them. Which side left out
    a call is unseen, so nobody is blamed; but for a rank of many that has left the loop in which
    they wait, and hands them nothing any more.
    """
    paired, rest = _operations(case)
    if not paired or (rest and case.graph.calls.findings):
        return
    ways = {_way(m) for m in paired}
    unknown = bool(rest) and (len(ways) > 1 or ways == {None}) and paired[0].op != "rpc"
    if not unknown and (len(ways) != 1 or None in ways):
        return
    members = tuple(sorted(n for meeting in paired for n in meeting.members))
    if len(members) + len(rest) < 2:
        return
    receive = ways == {"recv"}
    exchange = not rest and all(_exchanges(case, number) for number in members)
    to, none = ("to receive", "sends") if receive else ("to send", "receives")
    to, none = ("for messages that they exchange,", "comes") if exchange else (to, none)
    says = f"{case.names(members)} all wait {to} and none {none}"
    if rest:
        calls = " and ".join(dict.fromkeys(str(m.says.call) for m in paired))
        waits = f"{to}, and no rank {none}"
        waits = f"in {calls}, and no other rank is in such a call" if unknown else waits
        past = came_past_in_words(case, _nearest(case, members, rest), members)
        if len(ways) > 1 and not past and not _have_stood_still(case, members):
            return  # messages may be on their way
        says = _beside_collectives(case, members, waits, rest) + past
    gone = None if rest else next(loop_left(case, "few"), None)
    ring = ring_of(case, members) if gone is None else ()
    if gone is not None:
        says += f"; {case.names(gone.members)} left the loop that the others are in"
    elif ring:
        says += f": {ring_in_words(case, ring, members)}"
    ahead = _ahead(case, ring) if receive else ()
    if ahead:
        says += f"; {case.names(ahead)} has come to a later step, and sent nothing that fits"
    hit = hit_about(
        case,
        ahead,
        (*(n for n in members if n not in ahead), *(n for m in rest for n in m.members)),
        shown=ahead or ring or members,
        evidence=places_of(case, *(ring or members)[:4], *(m.members[0] for m in rest[:2])),
        fields={"says": says},
        strength=INCOMPLETE if rest or gone is not None else CLEAR,
        collective=Collective(op=paired[0].op if unknown else "recv" if receive else "send"),
    )
    if gone is not None:
        hit = replace(
            hit,
            members=gone.members,
            affected=gone.affected,
            names_culprit=True,
            location=gone.location,
        )
    yield hit


def _beside_collectives(
    case: Case, members: Sequence[int], waits: str, rest: Sequence[PendingOperation]
) -> str:
    """Say in what these members wait, and where all others are."""
    elsewhere = "; ".join(
        f"{case.names(m.members)} {'is' if len(m.members) == 1 else 'are'} in {m.op}{m.at}"
        for m in rest
    )
    verb = "waits" if count(case, members) == 1 else "wait"
    return f"{case.names(members)} {verb} {waits}: {elsewhere}"


def _nearest(
    case: Case, members: Sequence[int], rest: Sequence[PendingOperation]
) -> tuple[int, ...]:
    """Return the ranks of the call that is nearest in the program to that of these members."""
    path = path_of(case, case.states[members[0]])

    def shared(operation: PendingOperation) -> int:
        its = path_of(case, case.states[operation.members[0]])
        alike = (
            (a.function, a.file) == (b.function, b.file) for a, b in zip(path, its, strict=False)
        )
        return sum(itertools.takewhile(bool, alike))

    return max(rest, key=shared).members


def _ahead(case: Case, ring: Sequence[int]) -> tuple[int, ...]:
    """Return the one of two that counts a step more than the other: it has left out a message.

    What the other waits for in its step should have been sent before.
    """
    counted = step_counters(case.job)
    return tuple(
        n
        for n, other in zip(ring, reversed(ring), strict=True)
        if len(ring) == 2 and counts_more(counted.get(n, {}), counted.get(other, {}))
    )


@query
def face_to_face(case: Case) -> Iterator[Hit]:
    """Yield a hit for ranks of which one sends, the other receives, and neither call ends.

    Over NCCL the path between the two may be what is broken, of which other signatures speak. One
    look may catch a message on its way, so both must have stood still over several.
    """
    paired, rest = _operations(case)
    calls = case.graph.calls
    if any(f.verdict is not Verdict.WAITS_FOR_ABSENT for f in calls.findings):
        return
    backends = _backends(case)
    if "nccl" in backends:
        return
    ways = {case.member(n).rank: (_way(m), n) for m in paired for n in m.members}
    for rank, position in calls.positions.items():
        peer = position.call.peer
        theirs = calls.positions[peer].call.peer if peer in calls.positions else rank
        if not position.inside or position.source is None or theirs != rank:
            continue
        (way, member), (their_way, facing) = ways.get(rank, ("", 0)), ways.get(peer, ("", 0))
        if {way, their_way} != {"send", "recv"}:
            continue
        if any(case.states[n].motion.moved is not Moved.STILL for n in (member, facing)):
            continue
        verbs = ("send", "receive from") if way == "send" else ("receive", "send to")
        names = case.names((member,)), case.names((facing,))
        says = f"{names[0]} waits to {verbs[0]} and {names[1]} to {verbs[1]} it, and "
        says += "neither ends: tag, size or group of the two calls differ"
        yield hit_about(
            case,
            (),
            (member, facing, *(n for m in rest for n in m.members)),
            shown=(member,),
            evidence=(cite(position.source, position.quote, rank), *places_of(case, facing)),
            fields={"says": says},
            strength=CLEAR if backends else INCOMPLETE,
            collective=Collective(op=way or "recv"),
        )
        return
    yield from _crossing(case, paired, rest)
    yield from _batches(case, paired, rest)


def _batches(
    case: Case, paired: list[PendingOperation], rest: list[PendingOperation]
) -> Iterator[Hit]:
    """Yield a hit if all ranks wait for batches of sends and receives, and do not move.

    Whom they named is not known. Those that run another class of torch's than the others, as of
    schedules for a pipeline, post them in another order.
    """
    members = tuple(sorted(n for meeting in paired for n in meeting.members))
    states = [case.states[n] for n in members]
    if rest or len(members) < 2 or any(_way(m) is not None or m.op == "rpc" for m in paired):
        return
    if any(state.motion.moved is not Moved.STILL for state in states):
        return
    odd, classes = _of_another_class(case, members)
    others = tuple(n for n in members if n not in odd)
    because = f": {classes}" if classes else ": peer, tag, size or order of the calls differ"
    says = f"All ranks wait in {paired[0].op}, and no message comes across{because}"
    shown = (*(odd or members)[:2], others[0])
    evidence = [piece for n in shown for piece in evidence_of(case, case.states[n])]
    yield hit_about(
        case,
        odd,
        others,
        shown=odd or members,
        evidence=evidence,
        fields={"says": says},
        strength=INDIRECT if odd else INCOMPLETE,
        collective=Collective(op=paired[0].op),
        located=bool(odd),
    )


def _of_another_class(case: Case, members: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    """Return who runs a method of torch.distributed's in another class than most, and in words."""
    paths = {n: _methods(case, n) for n in members}
    for method in dict.fromkeys(method for path in paths.values() for method in path):
        classes = Counter(path[method] for path in paths.values() if method in path)
        (usual, many), *few = classes.most_common()
        odd = tuple(n for n in members if paths[n].get(method, usual) != usual)
        if few and many == len(members) - len(odd) > len(odd):
            others = case.names(n for n in members if n not in odd)
            own = ", ".join(sorted({paths[n][method] for n in odd}))
            return odd, f"{case.names(odd)} in {own}, {others} in {usual}"
    return (), ""


def _methods(case: Case, number: int) -> dict[tuple[str, str], str]:
    """Return the class of each method of torch.distributed's on a stack (Python 3.11 tells it)."""
    frames = (frame for frame in case.member(number).main_frames() if not frame.native)
    parts = ((frame.function.rpartition("."), frame.file) for frame in frames)
    return {
        (name, file): owner
        for (owner, _, name), file in parts
        if owner and "torch/distributed/" in file and "<locals>" not in owner
    }


def _crossing(
    case: Case, paired: list[PendingOperation], rest: list[PendingOperation]
) -> Iterator[Hit]:
    """Yield a hit if all ranks send or receive and do not move, or did until a limit.

    As tracebacks show, where it was a limit. Whom each of them named is not known.
    """
    by_way = {way: [m for m in paired if _way(m) == way] for way in ("send", "recv")}
    members = {way: sorted(n for m in ms for n in m.members) for way, ms in by_way.items()}
    everyone = tuple(sorted(members["send"] + members["recv"]))
    ends = [case.states[n].end for n in everyone]
    if rest or not all(members.values()) or len(everyone) < sum(len(m.members) for m in paired):
        return
    gave_up = all(end is not None and not end.own for end in ends)
    stand = all(case.states[n].motion.moved is Moved.STILL for n in everyone)
    if not gave_up and not stand:
        return
    senders, receivers = (case.names(tuple(members[way])) for way in ("send", "recv"))
    verb = "waits" if len(members["send"]) == 1 else "wait"
    says = f"{senders} {verb} to send and {receivers} to receive, and no message comes across"
    if gave_up:
        says = f"{senders} waited to send and {receivers} to receive until the limit, and "
        says += "no message came across"
    yield hit_about(
        case,
        (),
        everyone,
        shown=[members[way][0] for way in ("send", "recv")],
        fields={"says": f"{says}: peer, tag, size or order of the calls differ"},
        strength=INCOMPLETE,
        collective=Collective(op="send"),
    )


def _operations(case: Case) -> tuple[list[PendingOperation], list[PendingOperation]]:
    """Return the sends and receives that stand still, and the collectives beside them.

    Both are empty where somebody is late or unseen, or waits in something else.
    """
    operations = case.graph.operations
    paired = [m for m in operations if m.kind is WaitKind.P2P]
    rest = [m for m in operations if m.kind is not WaitKind.P2P]
    if not all_wait(case) or case.job.absent or all_recorded(case):
        return [], []
    if any(m.kind is not WaitKind.COLLECTIVE for m in rest):
        return [], []
    return paired, rest


def _backends(case: Case) -> set[str]:
    return {fact.value for fact in case.job.of(Setting) if fact.name == "backend"}


def _have_stood_still(case: Case, members: Sequence[int]) -> bool:
    """Return whether no message is on its way between the looks: who sends over gloo runs."""
    still = all(case.states[number].motion.moved is Moved.STILL for number in members)
    return still and _backends(case) == {"gloo"}


_BEGINS = (re.compile(r"(?i)\bi?send\b"), re.compile(r"(?i)\bi?recv\b"))


def _exchanges(case: Case, number: int) -> bool:
    """Return whether a member waits for both a send and a receive that it has begun above."""
    user = case.states[number].user
    if user is None or ".wait" not in (case.text(user) or "").lower():
        return False
    above = [*lines_above(user, case.text)]
    return all(any(map(begins.search, above)) for begins in _BEGINS)


def _way(operation: PendingOperation) -> str | None:
    """Return whether ranks receive or send in an operation; None where they do both, or either."""
    ways = [way for way in ("recv", "send") if way in operation.op]
    return ways[0] if len(ways) == 1 else None
