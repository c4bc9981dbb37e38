"""A GPU lets one process in, and that is another.

In compute mode Exclusive_Process (or Prohibited) a second process cannot make a context: the rank
that should use it is not on it.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.job.device import Device
from whyhang.analyzer.queries import Case, Hit, Signature, Symptom


def when(case: Case) -> Iterable[Hit]:
    return queries.gpus_with(case, lambda device: _shuts_rank_out(case, device))


SIGNATURE = Signature(
    id="gpu-taken",
    category="duplicate-gpu",
    level="wait",
    title="{gpus} does not let its rank in{used}",
    when=when,
    means="{gpus}: {says}, and its rank is not on it.",
    confidence="likely",
    remedies=(
        "End the process that holds it, or give the rank another GPU.",
        "nvidia-smi -c DEFAULT -i {index} lets several processes in.",
    ),
    next_steps=("nvidia-smi --query-gpu=index,compute_mode --format=csv; nvidia-smi pmon -c 1",),
)


def _shuts_rank_out(case: Case, device: Device) -> Symptom | None:
    """Return a symptom if a GPU takes one process only, or none, and its rank is not on it."""
    mode = str(device.now("compute_mode") or "").lower()
    pids = {case.member(n).pid for n in device.members}
    others = set(device.pids) - pids
    shut_out = bool(device.members) and not pids & set(device.pids)
    if not shut_out or not (mode == "prohibited" or (mode.startswith("exclusive") and others)):
        return None
    taken = f", taken by pid {min(others)}" if others else ""
    words = f"compute mode {device.now('compute_mode')}{taken}"
    return 1.0, device.state_with("compute_mode"), words
