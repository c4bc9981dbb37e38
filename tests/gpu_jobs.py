"""A job of eight ranks, and the state of the GPUs that they have."""

from __future__ import annotations

from collections.abc import Mapping

from gpu_docs import gpus, node
from small_jobs import ALL_REDUCE, report_of, still

from whyhang.analyzer.facts import Fact, Setting, Source, Who, replace
from whyhang.analyzer.report import Report

ALL = dict.fromkeys(range(8), ALL_REDUCE)
SPINS = {"busy": "100 %", "memory_busy": "0 %", "power": "118.20 W"}
RESTS = {"busy": "0 %", "memory_busy": "0 %", "power": "71.00 W"}
WORKS = {"busy": "100 %", "memory_busy": "40 %", "power": "640.00 W"}
NCCL = Setting(name="backend", value="nccl", who=Who(), source=Source(file="x"))


def states(
    changed: Mapping[int, Mapping[str, str]] | None = None, *, looks: int = 2, **everywhere: str
) -> list[Fact]:
    """Give the GPUs of the small job's host, whose rank n has the pid 1000 + n."""
    text = node(changed, **{**SPINS, **everywhere})
    return [replace(gpu, look=look) for look in range(looks) for gpu in gpus(text)]


def job(facts: list[Fact]) -> Report:
    """Diagnose eight ranks that all stand in one all_reduce, with these facts beside."""
    return report_of([*still(ALL), NCCL, *facts])
