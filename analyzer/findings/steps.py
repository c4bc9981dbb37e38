"""Which steps fit: what the job runs on, and what whyhang itself has done with it already.

None is about NCCL and GPUs where ranks talk by gloo or MPI, and none asks for what was done.
"""

import re
from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Setting

LOOKS, INTERVAL = 6, 5
"""What is advised where few looks were taken."""
EASY = 20
"""Seconds of looks that many hosts are done with within their usual limit."""

_LOOKS = re.compile(r"--looks (?P<looks>\d+) --interval (?P<seconds>\d+)")
_OF_NCCL = re.compile(r"\bNCCL_|\bNCCL\b")
_OF_GPUS = re.compile(r"\bnvidia-smi\b|\bNVRM\b|\bGPUs?\b")
_EITHER = re.compile(r"(?:, | and )NCCL_SOCKET_IFNAME\b|\bNCCL_SOCKET_IFNAME(?:, | and )")
NETWORK = (
    "Look at the network between the hosts before the code: pings, interfaces, firewalls.",
    "ip -s link; ss -tino state established  # on every host: errors, retrans, backoff",
)
"""A remedy and a step in place of those that were all about GPUs."""


def looked_for(case: Case) -> float:
    """Return how many seconds lie between the first and the last look at the job."""
    processes = [process for member in case.job.members for process in member.processes]
    times = [process.taken_at for process in processes if process.taken_at is not None]
    return max(times) - min(times) if times else 0.0


def took_native_frames(case: Case) -> bool:
    """Return whether the C frames of every rank that was looked at are known."""
    dumps = [member.dumps for member in case.job.members if member.dumps]
    return bool(dumps) and all(any("native" in dump.tool for dump in own) for own in dumps)


def more_looks(case: Case) -> str:
    """Return the options of a longer look than was taken; empty where one was long enough."""
    if _looked(case, LOOKS, INTERVAL):
        return ""
    return with_limit(case, f"--looks {LOOKS} --interval {INTERVAL}")


def with_limit(case: Case, step: str) -> str:
    """Give looks that take long the time that they need, where many hosts are looked at."""
    match = _LOOKS.search(step)
    hosts = {member.host for member in case.job.members if member.host}
    if match is None or len(hosts) < 2 or "--timeout" in step:
        return step
    seconds = int(match["looks"]) * int(match["seconds"])
    if seconds <= EASY:
        return step
    return f"{step[: match.end()]} --timeout {2 * seconds}{step[match.end() :]}"


def not_yet(case: Case, steps: Iterable[str]) -> list[str]:
    """Leave out the steps that ask for as many looks as were taken, and give long ones time."""
    kept = []
    for step in steps:
        match = _LOOKS.search(step)
        looked = match is not None and _looked(case, int(match["looks"]), int(match["seconds"]))
        if not looked and not ("--native always" in step and took_native_frames(case)):
            kept.append(with_limit(case, step))
    return kept


def _looked(case: Case, looks: int, interval: int) -> bool:
    """Return whether so many looks, so many seconds apart, were taken."""
    return case.graph.snapshots >= looks and looked_for(case) >= (looks - 1) * interval


def fitting(case: Case, texts: Iterable[str], instead: str = "") -> tuple[str, ...]:
    """Leave out what is about NCCL and GPUs where there are none; ``instead`` where all is.

    Ranks that talk by gloo have no use for NCCL's switches, and a torch that was built for the CPU
    has no GPU.
    """
    given = tuple(texts)
    backends, builds = _settings(case, "backend"), _settings(case, "torch")
    by_cpu = bool(backends) and backends <= {"gloo", "mpi"}
    no_gpu = bool(builds) and all(build.endswith("+cpu") for build in builds)
    wrong = [_OF_NCCL] * (by_cpu or no_gpu) + [_OF_GPUS] * no_gpu
    if not given or not wrong or case.job.gpus.devices:
        return given
    either = (_EITHER.sub("", text) if "GLOO_SOCKET_IFNAME" in text else text for text in given)
    kept = tuple(text for text in either if not any(word.search(text) for word in wrong))
    return kept or ((instead,) if instead else ())


def _settings(case: Case, name: str) -> set[str]:
    return {fact.value for fact in case.job.of(Setting) if fact.name == name}
