"""What GPUs show: all do the same, one does what the others do not, or one is held back."""

from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Setting, replace
from whyhang.analyzer.facts.calls import ROOTED
from whyhang.analyzer.findings.signature import CLEAR, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries.hits import places_of
from whyhang.analyzer.queries.machines.gpu_load import (
    held_in_cuda,
    is_undecided,
    load_in_words,
    load_of,
    surely_spins,
    trust_in_load,
    waits_seen,
)
from whyhang.analyzer.queries.machines.gpus import (
    AT_REST,
    HELD,
    SHOWN,
    Symptom,
    broken_gpus,
    cite_gpu,
    gpu_names,
    hit_on,
)
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import activity, call_of, location_of

_LAUNCHING = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD, WaitKind.CUDA_SYNC}


@side("gpus_show", what="all-spin")
def _all_spin(case: Case) -> Iterator[Hit]:
    """Yield one hit if the GPUs of all ranks are busy and draw little power."""
    load = load_of(case)
    if len(load.spinning) < 2 or load.computing or load.idle or load.others:
        return
    if not is_undecided(case) or (case.job.absent and not waits_seen(case)):
        return
    surely = all(surely_spins(device) for device in load.spinning)
    if not surely and not waits_seen(case):
        return
    ranked = sum(len(device.members) for device in load.spinning)
    whole = 1.0 if ranked == len(case.job.members) and not case.job.absent else INCOMPLETE
    strength = trust_in_load(case, load) * (whole if waits_seen(case) else INDIRECT)
    yield _together(case, load.spinning, strength)


@side("gpus_show", what="all-idle")
def _all_idle(case: Case) -> Iterator[Hit]:
    """Yield one hit if no GPU has work; not for jobs whose collectives run on the host."""
    load = load_of(case)
    if len(load.idle) < 2 or load.spinning or load.computing or load.others:
        return
    if not is_undecided(case):
        return
    backends = {fact.value for fact in case.job.of(Setting) if fact.name == "backend"}
    kinds = {meeting.kind for meeting in case.graph.operations}
    if "gloo" in backends or not kinds or not kinds <= _LAUNCHING:
        return
    if not all(device.pids for device in load.idle):
        return
    yield _together(case, load.idle, trust_in_load(case, load))


def _together(case: Case, devices: Sequence[Device], strength: float) -> Hit:
    waiters = waiters_for(case)
    meetings = case.graph.operations
    evidence = [cite_gpu(case, d, d.state_with("busy")) for d in devices[:3]]
    evidence += places_of(case, *waiters[:1])
    return Hit(
        affected=waiters,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=False,
        collective=call_of(case, waiters),
        gpus=tuple(device.number for device in devices),
        fields={
            "gpus": gpu_names(devices),
            "load": load_in_words(devices),
            "where": f" while all ranks stand in {meetings[0].says.call}"
            if len(meetings) == 1
            else "",
        },
    )


ONE_SIDED = ROOTED | {"send", "isend"}
"""Operations of which a rank may be done while others are not: an idle GPU tells less."""


@side("gpus_show", what="never-launched")
def _never_launched(case: Case) -> Iterator[Hit]:
    """Yield one hit for few idle GPUs while the many spin, with what their stacks say of why."""
    load = load_of(case)
    if not load.idle or load.others or not is_undecided(case):
        return
    few = len(load.idle) < len(load.spinning)
    pair = len(load.idle) == 1 == len(load.spinning) and surely_spins(load.spinning[0])
    if load.computing or not (few or pair):
        return
    if not waits_seen(case) and not all(surely_spins(device) for device in load.spinning):
        return
    strength = trust_in_load(case, load)
    if any(meeting.op in ONE_SIDED for meeting in case.graph.operations):
        strength *= INCOMPLETE
    yield _launch_hit(case, load.idle, load.spinning, strength)


@side("gpus_show", what="alone-at-work")
def _alone_at_work(case: Case) -> Iterator[Hit]:
    """Yield one hit for the one GPU that computes while those of all other ranks are idle."""
    load = load_of(case)
    if load.others or load.spinning or not load.idle or not is_undecided(case):
        return
    if len(load.computing) != 1 or not waits_seen(case):
        return
    yield _launch_hit(case, load.computing, load.idle, trust_in_load(case, load))


def _launch_hit(case: Case, odd: Sequence[Device], rest: Sequence[Device], strength: float) -> Hit:
    shown = [*odd[: SHOWN // 2], *rest[:2]]
    evidence = [cite_gpu(case, d, d.state_with("busy")) for d in shown]
    states = [case.states[number] for d in odd for number in d.members if case.states]
    evidence += places_of(case, *(state.member for state in states[:2]))
    hit = hit_on(
        case,
        odd,
        beside=rest,
        evidence=evidence,
        strength=strength,
        fields={
            "load": load_in_words(odd),
            "others": gpu_names(rest),
            "theirs": load_in_words(rest),
            "why": _why(case, states),
            "are": "is" if len(rest) == 1 else "are",
        },
    )
    return replace(
        hit,
        collective=call_of(case, hit.affected),
        location=location_of(case, states[0]) if len(states) == 1 else None,
        fields={**hit.fields, "who": case.names(hit.members) or f"the program on {gpu_names(odd)}"},
    )


def _why(case: Case, states: Sequence[RankState]) -> str:
    """Return why nothing was launched, as far as the stack of the first rank tells."""
    if not states or states[0].status is Status.UNSEEN:
        return "Its stack would say why; it was not taken."
    held = held_in_cuda(case, states[0])
    if held is not None:
        return f"Its stack says why: {held}."
    return f"Its stack shows it {activity(states[0])}; native frames (--native always) tell more."


@side("gpus_show", what="memory-without-process")
def _memory_without_process(case: Case) -> Iterator[Hit]:
    """Yield one hit for all GPUs with much memory in use and no process, where others list theirs.

    In a container no processes are listed at all.
    """
    devices = [d for d in case.job.gpus.devices if d.now("processes") is not None]
    places = {d.place for d in devices if d.pids}
    full = [
        d
        for d in devices
        if d.place in places
        and not d.now("processes")
        and not d.now("mig")
        and (d.now("memory_used") or 0) > max(HELD, 0.02 * (d.now("memory_total") or 0))
    ]
    if not full or case.graph.progress:
        return
    held = sum(d.now("memory_used") for d in full) / 1024
    yield hit_on(
        case,
        full,
        evidence=[cite_gpu(case, d, d.state_with("memory_used")) for d in full[:SHOWN]],
        fields={"held": f"{held:.0f} GiB"},
    )


_BRAKES = {
    "hw_thermal_slowdown": "too hot (hardware)",
    "hw_power_brake_slowdown": "the power supply's brake",
    "sw_thermal_slowdown": "too hot",
}


@side("gpus_show", what="slowed-down")
def _slowed_down(case: Case) -> Iterator[Hit]:
    """Yield one hit; where the stacks show a standstill it is no cause."""
    devices = [d for d in case.job.gpus.devices if d.now("reasons") is not None]
    slow = [d for d in devices if _brakes(d) and max(d.every("busy"), default=100) > AT_REST]
    if not slow or 2 * len(slow) > max(len(devices), 2):
        return
    stands = bool(waiters_for(case)) and case.graph.progress is False
    if stands or (case.job.gpus.by_member and not any(d.members for d in slow)):
        return
    words = {d.number: ", ".join(_brakes(d)) for d in slow}
    yield hit_on(
        case,
        slow,
        evidence=[
            cite_gpu(
                case,
                d,
                d.state_with("reasons"),
                f"clocks held down ({words[d.number]}), SM clock {d.now('sm_clock')} MHz",
            )
            for d in slow[:SHOWN]
        ],
        strength=1.0 if case.graph.progress else INCOMPLETE,
        fields={"says": "; ".join(dict.fromkeys(words.values()))},
    )


def _brakes(device: Device) -> list[str]:
    """Return the brakes that every sample shows: one that is on for a moment is everyday."""
    samples = [set(reasons) for reasons in device.every("reasons")]
    always = set.intersection(*samples) if samples else set()
    return [words for name, words in _BRAKES.items() if name in always]


@side("gpus_show", what="taken")
def _taken(case: Case) -> Iterable[Hit]:
    """Return one hit for all GPUs that take one process only, or none, and not their rank."""
    broken: list[tuple[Device, Symptom]] = []
    for device in case.job.gpus.devices:
        mode = str(device.now("compute_mode") or "")
        pids = {case.member(n).pid for n in device.members}
        others = set(device.pids) - pids
        closed = mode.lower() == "prohibited" or (mode.lower().startswith("exclusive") and others)
        if closed and device.members and not pids & set(device.pids):
            words = f"compute mode {mode}" + (f", taken by pid {min(others)}" if others else "")
            broken.append((device, (CLEAR, device.state_with("compute_mode"), words)))
    return broken_gpus(case, broken)
