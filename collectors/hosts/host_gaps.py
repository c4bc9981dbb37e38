"""Why a host brought nothing, as gaps: what was tried, why it failed, what to do."""

import re

from whyhang.analyzer.facts import Gap, Who
from whyhang.collectors.tool_failures import failure_of

COST = "what its ranks do is known from the other hosts only"

_LONGEST = 200


def _gap(
    name: str, why: str, remedy: str, *, what: str = "looking at host", cost: str = COST
) -> Gap:
    return Gap(what=f"{what} {name}", why=why, cost=cost, remedy=remedy, who=Who(host=name))


def silent(name: str, kind: str, seconds: float) -> Gap:
    """Return that a host gave no sign of life."""
    return _gap(
        name,
        f"it gave no sign of life within {seconds:g} s ({kind})",
        "Look whether it is up (ping, the scheduler's node state, its console)",
    )


def late(name: str, why: str, seconds: float) -> Gap:
    """Return that a host was not done in time."""
    return _gap(name, f"{why} within {seconds:g} s", "Give it more with --timeout")


def unfinished(name: str, seconds: float) -> Gap:
    """Return that a host was not done in time, and what it had sent before counts."""
    return _gap(
        name,
        f"it was not done within the {seconds:g} s for all hosts",
        "Give it more with --timeout",
        what="a further look at host",
        cost="what its ranks do is known from what it sent before",
    )


def clock_differs(name: str, ahead: float) -> Gap:
    """Return that the clock of a host is not that of the others."""
    return _gap(
        name,
        f"its clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this host's",
        "Set the clocks (chronyc tracking there)",
        what="comparing times of host",
        cost="what its logs say happened before or after events on other hosts is off by as much",
    )


def other_job(name: str, ranks: int) -> Gap:
    """Return that the hosts run another job, too."""
    return Gap(
        what=f"looking at the job {_plain(name)} ({ranks} processes)",
        why="another job has more processes on these hosts, and one is looked at a time",
        cost="it was left out",
        remedy="On one of its hosts: whyhang PID of one of its processes",
    )


def no_python(name: str, kind: str) -> Gap:
    """Return that a host has nothing that whyhang runs in."""
    remedy = "Make one available there (module load, PATH of a shell that is no login)"
    if kind == "kubernetes":
        remedy = "Bring one beside it: --k8s-debug IMAGE"
    return _gap(name, "it has no Python of version 3.10 or newer on PATH", remedy)


def no_whyhang(name: str, python: str) -> Gap:
    """Return that a host has a Python, and whyhang cannot be run in it."""
    return _gap(
        name,
        f"whyhang is not installed there for its Python {_plain(python)}, and what is installed "
        "here does not run there",
        "pip install whyhang there, or put a Python like the one here on its PATH",
    )


def no_process(name: str) -> Gap:
    """Return that a host was reached and nothing of the job is there."""
    return _gap(
        name,
        "no process of the job was found there",
        "Its ranks may have ended or never begun: look at their logs there",
    )


def not_all_known(known: int, count: int) -> Gap:
    """Return that the job runs on more hosts than could be learnt."""
    return Gap(
        what=f"looking at {count - known} more hosts of the job",
        why=f"it runs on {count}, and which they are could be learnt of {known} only",
        cost="what their ranks do is not known",
        remedy="name them: whyhang PID --hosts n[1-8], or collect on each by hand",
    )


def unreadable(name: str, why: str) -> Gap:
    """Return that what a host sent is not to be used."""
    return _gap(name, f"what it sent cannot be read: {why}", "Collect there by hand")


def reported(name: str, why: str, remedy: str) -> Gap:
    """Return what a far side says that went wrong there."""
    return _gap(name, _plain(why), _plain(remedy).rstrip("."))


def ended(name: str, kind: str, code: int | None, errors: str, *, alive: bool) -> Gap:
    """Return why the command that reaches a host has ended, from what it printed."""
    lines = [line for line in errors.splitlines() if line.strip()]
    tool = kind if kind in {"slurm", "kubernetes", "ray"} else "ssh"
    if failure := failure_of(tool, errors):
        return _gap(name, failure.why, failure.remedy.format(name=name))
    if lines:
        return _gap(name, f"{kind} said: {_plain(lines[-1])}", "")
    how = "was killed" if code is None or code > 128 else f"ended with code {code}"
    return _gap(name, f"what ran there {how}" if alive else f"the command {how}", "")


def _plain(text: str) -> str:
    words = re.sub(r"[^\x20-\x7e]+", " ", text).split()
    return " ".join(words)[:_LONGEST]
