"""Steps that fit what the job runs on: none about NCCL and GPUs where ranks talk by gloo or MPI."""

import re
from collections.abc import Iterable

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Setting

_OF_NCCL = re.compile(r"\bNCCL_|\bNCCL\b")
_OF_GPUS = re.compile(r"\bnvidia-smi\b|\bNVRM\b|\bGPUs?\b")
_EITHER = re.compile(r"(?:, | and )NCCL_SOCKET_IFNAME\b|\bNCCL_SOCKET_IFNAME(?:, | and )")
NETWORK = (
    "Look at the network between the hosts before the code: pings, interfaces, firewalls.",
    "ip -s link; ss -tino state established  # on every host: errors, retrans, backoff",
)
"""A remedy and a step in place of those that were all about GPUs."""


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
