"""The load of GPUs: which rank has launched its kernel, and which has not.

A GPU is busy where every sample says 90 % or more, idle where none says more than 5 %. A
kernel of NCCL that waits for its peers keeps its GPU at 100 % and draws little power; a GPU
at 0 % has nothing to run: its rank has launched nothing.
"""

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Record, grouped
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, INCOMPLETE, INDIRECT
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries.machines.gpus import AT_REST, HELD
from whyhang.analyzer.queries.waits.states import waiters_for
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.toml import table

BUSY = 90
"""Per cent of time with a kernel running from which a GPU is busy."""

SPINS = 0.55
"""Share of the power limit up to which a busy GPU is taken to wait rather than to compute."""

SPINS_UNSEEN = 0.35
"""The same where neither stacks nor the use of memory bear it out."""

MEMORY_AT_REST = 5  # per cent of time in which a waiting kernel uses the memory


class Load(Record):
    """The GPUs of the job, or of whoever is on them, by what they do."""

    spinning: tuple[Device, ...]  # busy, and waiting as far as power and memory tell
    computing: tuple[Device, ...]  # busy, with much power or memory traffic
    idle: tuple[Device, ...]
    others: tuple[Device, ...]  # between, or not told
    samples: int  # of the GPU that has fewest


def load_of(case: Case) -> Load:
    """Sort the GPUs by their load; those that nobody uses are left out."""
    devices = _subjects(case)
    sorts = grouped(devices, _sort)
    samples = [len({(s.look, s.taken_at) for s in d.states if s.busy is not None}) for d in devices]
    return Load(
        spinning=tuple(sorts.get("spinning", ())),
        computing=tuple(sorts.get("computing", ())),
        idle=tuple(sorts.get("idle", ())),
        others=tuple(sorts.get("others", ())),
        samples=min(samples, default=0),
    )


def _subjects(case: Case) -> list[Device]:
    """Return the GPUs with ranks on them; where no rank is known, those with programs."""
    devices = case.job.gpus.devices
    if any(device.members for device in devices):
        return [device for device in devices if device.members]
    return [
        device
        for device in devices
        if device.pids
        or (device.now("processes") is None and (device.now("memory_used") or 0) > HELD)
    ]


def _sort(device: Device) -> str:
    busy = device.every("busy")
    if not busy or device.now("mig"):
        return "others"
    if max(busy) <= AT_REST:
        return "idle"
    if min(busy) < BUSY:
        return "others"
    traffic = device.every("memory_busy")
    if traffic and min(traffic) > MEMORY_AT_REST:
        return "computing"
    share = _power_share(device)
    return "spinning" if share is None or share <= SPINS else "computing"


def _power_share(device: Device) -> float | None:
    """Return the highest power that was told as a share of the limit."""
    powers, limit = device.every("power"), device.now("power_limit")
    return max(powers) / limit if powers and limit else None


def surely_spins(device: Device) -> bool:
    """Return whether the values alone bear out that a busy GPU only waits."""
    traffic = device.every("memory_busy")
    share = _power_share(device)
    if share is None:
        return False
    at_rest = bool(traffic) and max(traffic) <= MEMORY_AT_REST
    return share <= (SPINS if at_rest else SPINS_UNSEEN)


def is_undecided(case: Case) -> bool:
    """Return whether stacks and ledger leave open who holds the others up."""
    if case.graph.progress or case.graph.lagging or case.job.missing:
        return False
    return not any(finding.culprits for finding in case.graph.calls.findings)


def waits_seen(case: Case) -> bool:
    """Return whether stacks show ranks that wait for each other."""
    return bool(waiters_for(case)) or bool(case.graph.calls.waits)


def trust_in_load(case: Case, load: Load) -> float:
    """Return how far load alone may be believed: one sample is a moment, stacks bear it out."""
    if waits_seen(case):
        return CLEAR if load.samples > 1 else INDIRECT
    return INCOMPLETE if load.samples > 1 else CONTRADICTED


def load_in_words(devices: Sequence[Device]) -> str:
    """Return the load and power of several GPUs as ranges: "100 % (115 to 121 W)"."""
    busy = [value for device in devices for value in device.every("busy")]
    power = [value for device in devices for value in device.every("power")]
    text = f"{_range(busy)} %" if busy else "an unknown load"
    return f"{text} ({_range(power)} W)" if power else text


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f}" if round(low) == round(high) else f"{low:.0f} to {high:.0f}"


_HELD: dict[str, list[str]] = table(__package__, "cuda_calls.toml")
"""What a rank is held in, in words, with the beginnings of the names of native frames."""


def held_in_cuda(case: Case, state: RankState) -> str | None:
    """Return in what of CUDA a rank is held, as far as the native frames of its stack tell."""
    dumps = case.member(state.member).dumps
    functions = {
        frame.function.lstrip("_").partition("(")[0]
        for dump in dumps
        for thread in dump.threads
        for frame in thread.frames
        if frame.native and (state.place is None or thread.tid in {state.place.tid, None})
    }
    for words, starts in _HELD.items():
        if any(function.startswith(tuple(starts)) for function in functions):
            return words
    return None
