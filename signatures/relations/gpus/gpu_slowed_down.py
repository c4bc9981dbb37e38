"""The clocks of a GPU are held down by heat or by the power supply.

Its rank is slower than the others, which wait for it in every step: slow, not hung. A power cap
in software is everyday and does not count, nor does a brake that all GPUs share.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.findings.signature import INCOMPLETE
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.queries.gpus import AT_REST, SHOWN

_BRAKES = {
    "hw_thermal_slowdown": "too hot (hardware)",
    "hw_power_brake_slowdown": "the power supply's brake",
    "sw_thermal_slowdown": "too hot",
}


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit; where the stacks show a standstill it is no cause."""
    devices = [d for d in case.job.gpus.devices if d.now("reasons") is not None]
    slow = [d for d in devices if _brakes(d) and max(d.every("busy"), default=100) > AT_REST]
    if not slow or 2 * len(slow) > max(len(devices), 2):
        return
    stands = bool(queries.waiters_for(case)) and case.graph.progress is False
    if stands or (case.job.gpus.by_member and not any(d.members for d in slow)):
        return
    words = {d.number: ", ".join(_brakes(d)) for d in slow}
    yield queries.hit_on(
        case,
        slow,
        evidence=[
            queries.cite_gpu(
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


SIGNATURE = Signature(
    id="gpu-slowed-down",
    category="slow-not-hung",
    level="machine",
    title="{gpus} is slowed down{used}: {says}",
    when=when,
    means="The clocks of {gpus} are held down ({says}), those of the GPUs beside it are not.",
    confidence="possible",
    remedies=("Look at cooling, airflow and power supplies of {hosts}.",),
    next_steps=("nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i {index}  # on {hosts}",),
)


def _brakes(device: Device) -> list[str]:
    """Return the brakes that every sample shows: one that is on for a moment is everyday."""
    samples = [set(reasons) for reasons in device.every("reasons")]
    always = set.intersection(*samples) if samples else set()
    return [words for name, words in _BRAKES.items() if name in always]
