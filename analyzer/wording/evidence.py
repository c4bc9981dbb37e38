"""What is cited for where a rank stands: its deciding frame, its process state, its busy worker."""

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, Process, StackDump, counted
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks import Place
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wording.describe import busy_worker, duration


def evidence_of(case: Case, state: RankState) -> list[Evidence]:
    """Cite what places a member: its deciding frame, its process state, its busy worker."""
    member = case.member(state.member)
    evidence: list[Evidence] = []
    if state.status in {Status.STOPPED, Status.GONE} and member.processes:
        evidence.append(_state(member.processes[-1], member.rank))
    if state.status is Status.GONE and state.end is not None:
        evidence.append(cite(state.end.source, state.end.quote, member.rank))
    if state.place is not None and member.dumps:
        evidence.append(_frames(member.dumps[-1], state.place, member.rank))
    if state.motion.moved is Moved.STILL and member.processes:
        evidence.append(_counters(member.processes, member.rank))
    if state.pulse is not None and state.pulse.behind:
        evidence.append(beat_of(case, state))
    main = member.processes[-1].threads[:1] if member.processes else ()
    evidence += [
        Evidence(
            source=member.processes[-1].source.file,
            rank=member.rank,
            quote=f"pid {member.pid} in the kernel: {' ← '.join(thread.kernel)}",
        )
        for thread in main
        if thread.kernel
    ]
    worker = busy_worker(state)
    if worker is not None and member.children[worker[0]].dumps:
        evidence.append(_frames(member.children[worker[0]].dumps[-1], worker[1], member.rank))
    return evidence


def beat_of(case: Case, state: RankState) -> Evidence:
    """Cite the step that a rank noted last; raises ValueError where it noted none."""
    pulse = state.pulse
    if pulse is None:
        raise ValueError(f"{case.member(state.member).name} has noted no step")
    silent = pulse.silent_for
    when = "" if silent is None else f", {duration(silent)} before it was read"
    steps = counted(pulse.behind, "step")
    behind = f"; that is {steps} behind the furthest rank" if pulse.behind else ""
    words = f"it came to step {pulse.last.step} last{when}{behind}"
    return cite(pulse.last.source, words, case.member(state.member).rank)


def _state(process: Process, rank: int | None) -> Evidence:
    words = f"State: {process.state} ({_STATE_WORDS.get(process.state or '', 'unknown')})"
    if process.frozen is not None:
        words = f"its control group {process.frozen} is frozen"
    return cite(process.source, f"pid {process.who.pid} {words}", rank)


_STATE_WORDS = {
    "T": "stopped",
    "t": "tracing stop",
    "Z": "zombie",
    "X": "dead",
    "D": "disk sleep",
    "R": "running",
    "S": "sleeping",
}


def _counters(processes: tuple[Process, ...], rank: int | None) -> Evidence:
    last = processes[-1]
    switches = last.before.switches if last.before else 0
    paused = " but for pauses by another tool" if any(p.pauses for p in processes) else ""
    return Evidence(
        source=last.source.file,
        rank=rank,
        quote=f"pid {last.who.pid}: the main thread did not run between the looks "
        f"({switches} context switches before and after{paused})",
    )


def _frames(dump: StackDump, place: Place, rank: int | None) -> Evidence:
    """Quote the frame that decides, and the user's frame that led there."""
    thread = next((t for t in dump.threads if t.tid == place.tid), None) or main_thread(dump)
    frames: list[Frame] = [f for f in (place.frame, place.user) if f is not None]
    if not frames and thread is not None and thread.frames:
        frames = [thread.frames[0]]
    words = " ← ".join(dict.fromkeys(in_words(frame) for frame in frames))
    return Evidence(
        source=dump.source.file,
        line=thread.line if thread is not None else dump.source.line,
        rank=rank,
        quote=words,
    )
