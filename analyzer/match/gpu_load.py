"""Matchers over the load of GPUs: which rank has launched its kernel, and which has not.

A GPU is busy where every sample says 90 % or more, idle where none says more than 5 %. A
kernel of NCCL that waits for its peers keeps its GPU at 100 % and draws little power; a GPU
at 0 % has nothing to run: its rank has launched nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, Setting, replace
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.job.devices import Device
from whyhang.analyzer.match.gpu import AT_REST, HELD, SHOWN, hit_on, names, quoted
from whyhang.analyzer.match.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.wording.describe import activity, call_of, evidence_of, location_of

BUSY = 90
"""Per cent of time with a kernel running from which a GPU is busy."""

ONE_SIDED = ("broadcast", "reduce", "scatter", "gather", "send", "isend")
"""Operations of which a rank may be done while others are not: an idle GPU tells less."""

SPINS = 0.55
"""Share of the power limit up to which a busy GPU is taken to wait rather than to compute."""

SPINS_UNSEEN = 0.35
"""The same where neither stacks nor the use of memory bear it out."""

MEMORY_AT_REST = 5  # per cent of time in which a waiting kernel uses the memory

# What of CUDA a rank may be held in before its kernel starts, by the names of native frames.
HOLDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("cuModuleLoad", "cuLibraryLoad", "cuModuleGetFunction", "cuLibraryGetKernel"),
        (
            "it is loading a kernel for the first time, which waits for the kernels that run "
            "(CUDA_MODULE_LOADING=EAGER loads all at the start)"
        ),
    ),
    (
        (
            *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMemAlloc"),
            *("cuMemFree", "cuMemHostAlloc", "cudaMallocHost"),
        ),
        "it is in a CUDA memory call, which waits for all work on the GPU",
    ),
    (
        (
            *("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize"),
            *("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cudaMemcpy"),
            "cuMemcpy",
        ),
        "it waits for work on a stream, before or instead of launching",
    ),
    (("cudaLaunchKernel", "cuLaunchKernel"), "it is in the launch of a kernel"),
)


class Load(Record):
    """The GPUs of the job, or of whoever is on them, by what they do."""

    spinning: tuple[Device, ...]  # busy, and waiting as far as power and memory tell
    computing: tuple[Device, ...]  # busy, with much power or memory traffic
    idle: tuple[Device, ...]
    others: tuple[Device, ...]  # between, or not told
    samples: int  # of the GPU that has fewest

    @property
    def busy(self) -> tuple[Device, ...]:
        """Give all that are at work or spin."""
        return (*self.spinning, *self.computing)


def load_of(case: Case) -> Load:
    """Sort the GPUs; those that nobody uses are left out."""
    devices = _subjects(case)
    sorts: dict[str, list[Device]] = {"spinning": [], "computing": [], "idle": [], "others": []}
    for device in devices:
        sorts[_sort(device)].append(device)
    samples = [len({(s.look, s.taken_at) for s in d.states if s.busy is not None}) for d in devices]
    return Load(
        spinning=tuple(sorts["spinning"]),
        computing=tuple(sorts["computing"]),
        idle=tuple(sorts["idle"]),
        others=tuple(sorts["others"]),
        samples=min(samples, default=0),
    )


def _subjects(case: Case) -> list[Device]:
    """Give the GPUs with ranks on them; where no rank is known, those with programs."""
    devices = case.job.gpus.devices
    if case.job.members:
        return [device for device in devices if device.members]
    return [device for device in devices if device.pids or _holds_memory(device)]


def _holds_memory(device: Device) -> bool:
    listed = device.now("processes")
    return not listed and listed is None and (device.now("memory_used") or 0) > HELD


def _sort(device: Device) -> str:
    told = device.every("busy")
    if not told or device.now("mig"):
        return "others"
    if max(told) <= AT_REST:
        return "idle"
    if min(told) < BUSY:
        return "others"
    traffic = device.every("memory_busy")
    if traffic and min(traffic) > MEMORY_AT_REST:
        return "computing"
    share = power_share(device)
    return "spinning" if share is None or share <= SPINS else "computing"


def power_share(device: Device) -> float | None:
    """Give the highest power that was told as a share of the limit."""
    powers, limit = device.every("power"), device.now("power_limit")
    return max(powers) / limit if powers and limit else None


def _surely_spins(device: Device) -> bool:
    """Tell whether the values alone bear out that a busy GPU only waits."""
    traffic = device.every("memory_busy")
    share = power_share(device)
    if share is None:
        return False
    at_rest = bool(traffic) and max(traffic) <= MEMORY_AT_REST
    return share <= (SPINS if at_rest else SPINS_UNSEEN)


def _undecided(case: Case) -> bool:
    """Tell whether stacks and ledger leave open who holds the others up."""
    if case.graph.progress or case.graph.lagging or case.job.missing:
        return False
    return not any(finding.culprits for finding in case.graph.calls.findings)


def _seen(case: Case) -> bool:
    """Tell whether stacks show ranks that wait for each other."""
    return bool(waiters_for(case)) or bool(case.graph.calls.waits)


def _strength(case: Case, load: Load) -> float:
    """Say how far load alone may be believed: one sample is a moment, stacks bear it out."""
    if _seen(case):
        return CLEAR if load.samples > 1 else INDIRECT
    return INCOMPLETE if load.samples > 1 else CONTRADICTED


class NeverLaunched(Record):
    """Few GPUs are idle while the many spin: the ranks on them have launched nothing."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the idle ones, with what their stacks say of why."""
        load = load_of(case)
        if not load.idle or load.others or not _undecided(case):
            return ()
        few = len(load.idle) < len(load.spinning)
        pair = len(load.idle) == 1 == len(load.spinning) and _surely_spins(load.spinning[0])
        if load.computing or not (few or pair):
            return ()
        if not _seen(case) and not all(_surely_spins(device) for device in load.spinning):
            return ()
        strength = _strength(case, load)
        if any(meeting.op in ONE_SIDED for meeting in case.graph.operations):
            strength *= INCOMPLETE
        return (_launch_hit(case, load.idle, load.spinning, strength),)


def never_launched() -> NeverLaunched:
    """Ask for the rank whose GPU has nothing to run while the others' spin."""
    return NeverLaunched()


def _launch_hit(case: Case, odd: Sequence[Device], rest: Sequence[Device], strength: float) -> Hit:
    shown = [*odd[: SHOWN // 2], *rest[:2]]
    evidence = [quoted(case, d, d.state_with("busy")) for d in shown]
    states = [case.states[number] for d in odd for number in d.members if case.states]
    for state in states[:2]:
        evidence += evidence_of(case, state)[:1]
    hit = hit_on(
        case,
        odd,
        beside=rest,
        evidence=evidence,
        strength=strength,
        fields={
            "load": loads(odd),
            "others": names(rest),
            "theirs": loads(rest),
            "why": _why(case, states),
            "is": "is" if len(odd) == 1 else "are",
            "has": "has" if len(odd) == 1 else "have",
            "are": "is" if len(rest) == 1 else "are",
        },
    )
    return replace(
        hit,
        collective=call_of(case, hit.affected),
        location=location_of(case, states[0]) if len(states) == 1 else None,
        fields={**hit.fields, "who": case.names(hit.members) or f"the program on {names(odd)}"},
    )


def loads(devices: Sequence[Device]) -> str:
    """Say the load and power of several GPUs as ranges: "100 % (115 to 121 W)"."""
    busy = [value for device in devices for value in device.every("busy")]
    power = [value for device in devices for value in device.every("power")]
    text = f"{_range(busy)} %" if busy else "an unknown load"
    return f"{text} ({_range(power)} W)" if power else text


def _range(told: Sequence[float]) -> str:
    low, high = min(told), max(told)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


def _why(case: Case, states: Sequence[RankState]) -> str:
    """Say why nothing was launched, as far as the stack of the first rank tells."""
    if not states or states[0].status is Status.UNSEEN:
        return "Its stack would say why; it was not taken."
    held = _held(case, states[0])
    if held is not None:
        return f"Its stack says why: {held}."
    return f"Its stack shows it {activity(states[0])}; native frames (--native always) tell more."


def _held(case: Case, state: RankState) -> str | None:
    dumps = case.member(state.member).dumps
    found = {
        frame.function.lstrip("_").partition("(")[0]
        for dump in dumps
        for thread in dump.threads
        for frame in thread.frames
        if frame.native and (state.place is None or thread.tid in {state.place.tid, None})
    }
    for starts, words in HOLDS:
        if any(function.startswith(starts) for function in found):
            return words
    return None


class AloneAtWork(Record):
    """One GPU computes while those of all other ranks are idle: they wait for its rank."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit for the GPU that is at work."""
        load = load_of(case)
        if load.others or load.spinning or not load.idle or not _undecided(case):
            return ()
        if len(load.computing) != 1 or not _seen(case):
            return ()
        return (_launch_hit(case, load.computing, load.idle, _strength(case, load)),)


def alone_at_work() -> AloneAtWork:
    """Ask for the one rank whose GPU computes while the others' have nothing to do."""
    return AloneAtWork()


class AllSpin(Record):
    """The GPUs of all ranks are busy and draw little power: everyone launched and waits."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody."""
        load = load_of(case)
        if len(load.spinning) < 2 or load.computing or load.idle or load.others:
            return ()
        if not _undecided(case) or (case.job.absent and not _seen(case)):
            return ()
        surely = all(_surely_spins(device) for device in load.spinning)
        if not surely and not _seen(case):
            return ()
        ranked = sum(len(device.members) for device in load.spinning)
        whole = 1.0 if ranked == len(case.job.members) and not case.job.absent else INCOMPLETE
        strength = _strength(case, load) * (whole if _seen(case) else INDIRECT)
        return (_together(case, load.spinning, strength),)


def all_spin() -> AllSpin:
    """Ask whether every GPU waits inside a kernel."""
    return AllSpin()


_LAUNCHING = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD, WaitKind.CUDA_SYNC}


class AllIdle(Record):
    """All ranks wait for each other and no GPU has anything to run."""

    def __call__(self, case: Case) -> tuple[Hit, ...]:
        """Give one hit that blames nobody; not for jobs whose collectives run on the host."""
        load = load_of(case)
        if len(load.idle) < 2 or load.busy or load.others or not _undecided(case):
            return ()
        backends = {fact.value for fact in case.job.of(Setting) if fact.name == "backend"}
        kinds = {meeting.kind for meeting in case.graph.operations}
        if "gloo" in backends or not kinds or not kinds <= _LAUNCHING:
            return ()
        if not all(device.pids for device in load.idle):
            return ()
        return (_together(case, load.idle, _strength(case, load)),)


def all_idle() -> AllIdle:
    """Ask whether all ranks wait and no GPU has work."""
    return AllIdle()


def _together(case: Case, devices: Sequence[Device], strength: float) -> Hit:
    waiters = waiters_for(case)
    meetings = case.graph.operations
    evidence = [quoted(case, d, d.state_with("busy")) for d in devices[:3]]
    if waiters:
        evidence += evidence_of(case, case.states[waiters[0]])[:1]
    return Hit(
        affected=waiters,
        evidence=tuple(evidence),
        strength=strength,
        names_culprit=False,
        collective=call_of(case, waiters),
        gpus=tuple(device.number for device in devices),
        fields={
            "gpus": names(devices),
            "load": loads(devices),
            "where": f" while all ranks stand in {meetings[0].says.call}"
            if len(meetings) == 1
            else "",
        },
    )
