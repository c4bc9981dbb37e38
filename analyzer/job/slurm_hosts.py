"""The hosts of a job by what Slurm tells each process: which there are, which rank is where."""

import re
from collections.abc import Iterable, Mapping

from whyhang.analyzer.facts import MAX_RANKS

_NODES = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST")
_TASKS = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
_PART = re.compile(r"([^,\[\]]+)((?:\[[^\]]*\][^,\[\]]*)*)")
_BRACKET = re.compile(r"\[([^\]]*)\]([^\[\]]*)")
_REPEATED = re.compile(r"(\d+)(?:\(x(\d+)\))?")
MAX_HOSTS = 100_000


def expand(text: str) -> tuple[str, ...]:
    """Expand Slurm's list of hosts: "n[01-03,7],login" (scontrol show hostnames does the same)."""
    hosts: list[str] = []
    for part in _PART.finditer(text):
        names = [part.group(1)]
        for numbers, tail in _BRACKET.findall(part.group(2)):
            names = [f"{name}{number}{tail}" for name in names for number in _numbers(numbers)]
            if len(names) > MAX_HOSTS:
                return ()
        hosts += names
    return tuple(hosts)


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for piece in text.split(","):
        low, dash, high = piece.partition("-")
        if not dash:
            numbers.append(piece)
        elif low.isdecimal() and high.isdecimal() and int(high) - int(low) < MAX_HOSTS:
            numbers += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return numbers


def hosts_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """List the hosts of the Slurm step that a process belongs to, in the order of their ranks."""
    return next((expand(environ[name]) for name in _NODES if environ.get(name)), ())


def hosts_of_ranks(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Name the host on which Slurm starts each rank, by its default block distribution."""
    hosts = hosts_in(environ)
    tasks = next((environ[name] for name in _TASKS if environ.get(name)), "")
    repeated = ((int(number), int(times or 1)) for number, times in _REPEATED.findall(tasks))
    counts = [n for n, times in repeated for _ in range(min(times, MAX_HOSTS))]  # "2(x3),1"
    placed: list[str] = []
    for host, count in zip(hosts, counts, strict=False):
        placed += [host] * min(count, MAX_RANKS - len(placed))
    return tuple(placed)


def other_hosts(
    seen: Iterable[str | None], environs: Iterable[Mapping[str, str]]
) -> tuple[str, ...]:
    """List the hosts of the job's allocation that are not among those seen.

    A node of Slurm may have another name than its host: SLURMD_NODENAME of a process says which.
    """
    known = {name for name in seen if name}
    listed: dict[str, None] = {}
    for environ in environs:
        known.add(environ.get("SLURMD_NODENAME", ""))
        listed |= dict.fromkeys(hosts_in(environ))
    return tuple(host for host in listed if host not in known)
