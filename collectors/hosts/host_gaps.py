"""Why a host brought nothing, as gaps: what was tried, why it failed, what to do."""

import re

from whyhang.analyzer.facts import Gap, Who
from whyhang.collectors.tool_failures import failure_of

COST = "what its ranks do is known from the other hosts only"

_LONGEST = 200


def host_gap(
    name: str, why: str, remedy: str = "", *, what: str = "looking at host", cost: str = COST
) -> Gap:
    """Return what is not known of a host, why, and what to do."""
    return Gap(what=f"{what} {name}", why=why, cost=cost, remedy=remedy, who=Who(host=name))


def late(name: str, why: str, seconds: float) -> Gap:
    """Return that a host was not done in time."""
    return host_gap(name, f"{why} within {seconds:g} s", "Give it more with --timeout")


def no_python(name: str, kind: str) -> Gap:
    """Return that a host has nothing that whyhang runs in."""
    remedy = "Make one available there (module load, PATH of a shell that is no login)"
    if kind == "kubernetes":
        remedy = "Bring one beside it: --k8s-debug IMAGE"
    return host_gap(name, "it has no Python of version 3.10 or newer on PATH", remedy)


def no_whyhang(name: str, python: str) -> Gap:
    """Return that a host has a Python, and whyhang cannot be run in it."""
    return host_gap(
        name,
        f"whyhang is not installed there for its Python {plain(python)}, and what is installed "
        "here does not run there",
        "pip install whyhang there, or put a Python like the one here on its PATH",
    )


def not_all_known(known: int, count: int) -> Gap:
    """Return that the job runs on more hosts than could be learnt."""
    return Gap(
        what=f"looking at {count - known} more hosts of the job",
        why=f"it runs on {count}, and which they are could be learnt of {known} only",
        cost="what their ranks do is not known",
        remedy="name them: whyhang PID --hosts n[1-8], or collect on each by hand",
    )


def ended(name: str, kind: str, code: int | None, errors: str, *, alive: bool) -> Gap:
    """Return why the command that reaches a host has ended, from what it printed."""
    lines = [line for line in errors.splitlines() if line.strip()]
    tool = kind if kind in {"slurm", "kubernetes", "ray"} else "ssh"
    if failure := failure_of(tool, errors):
        return host_gap(name, failure.why, failure.remedy.format(name=name))
    if lines:
        return host_gap(name, f"{kind} said: {plain(lines[-1])}", "")
    how = "was killed" if code is None or code > 128 else f"ended with code {code}"
    return host_gap(name, f"what ran there {how}" if alive else f"the command {how}", "")


def plain(text: str) -> str:
    """Return what came from a host as one short line of plain characters."""
    words = re.sub(r"[^\x20-\x7e]+", " ", text).split()
    return " ".join(words)[:_LONGEST]
