"""A GPU holds memory that no process owns.

A killed job left a context behind: a zombie, a process in a container that is gone, a driver that
has not cleaned up. The next job on it runs out of memory or is kept out.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.queries.gpus import HELD, SHOWN


def when(case: Case) -> Iterator[Hit]:
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
    yield queries.hit_on(
        case,
        full,
        evidence=[queries.cite_gpu(case, d, d.state_with("memory_used")) for d in full[:SHOWN]],
        fields={"held": f"{held:.0f} GiB"},
    )


SIGNATURE = Signature(
    id="gpu-memory-without-process",
    category="gpu-oom",
    level="wait",
    title="{held} of memory on {gpus} belong to no process",
    when=when,
    means=(
        "{held} on {gpus} are taken and no process is listed there, though processes are listed "
        "on other GPUs of the host: what an ended job left behind, or a process that this user "
        "cannot see."
    ),
    confidence="hint",
    remedies=(
        "Look for a process that still has the device open, and end it; else reset the GPU.",
    ),
    next_steps=("fuser -v /dev/nvidia*  # as root, on {hosts}",),
)
