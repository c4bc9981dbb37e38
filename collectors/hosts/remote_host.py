"""What is known of one host while it is talked to, in words of all of them, and why one failed."""

import re
from collections.abc import Sequence

from whyhang.analyzer.facts import Gap, Who, counted
from whyhang.collectors.hosts.reach import ReachedHost
from whyhang.collectors.hosts.wire import Answer
from whyhang.collectors.tool_failures import failure_of

COST = "what its ranks do is known from the other hosts only"
LONGEST = 200  # characters of what a host says

MOST_NAMED = 4
"""Hosts that progress names, of those waited for and of those given up."""


class RemoteHost:
    """A host and the far side that runs there, from the first attempt to reach it.

    ``channel`` is the command that reaches it, alone or with others; ``own_name`` is what it calls
    itself on the wire, ``node`` what its system calls it. ``alive``: it gave a sign of life,
    ``silent``: it gave none, and nothing there refused the connection either,
    ``hello`` is what it said of itself, ``fed``: it was sent whyhang, ``ready``: that runs there,
    ``busy``: it has an order to answer, ``sent``: it sent evidence.
    """

    def __init__(self, host: ReachedHost, channel: str) -> None:
        self.host = host
        self.channel = channel
        self.own_name = ""
        self.node = ""
        self.hello: Answer | None = None
        self.fed = False
        self.alive = False
        self.silent = False
        self.ready = False
        self.busy = False
        self.sent = False
        self.gap: Gap | None = None
        self.offset: float | None = None  # seconds that its clock is ahead
        self.round_trip: float | None = None
        self.asked = False
        self.jobs: dict[str, int] = {}  # ranks by the name of the job
        self.logs: dict[str, bool] = {}  # by path: whether a rank there alone writes it
        self.own: tuple[str, ...] = ()  # its addresses
        self.others: list[str] = []  # hosts that it knows of

    @property
    def phase(self) -> str:
        """What is waited for."""
        if not self.alive:
            return "connecting"
        return "at work" if self.ready else "starting whyhang"

    @property
    def name(self) -> str:
        """The name for people: what the planner calls it."""
        return self.host.name


def left_to_others(hosts: Sequence[RemoteHost]) -> dict[tuple[str, str], list[str]]:
    """Return which logs each host leaves to another: of a shared one, one host is the reader.

    That is one of which a rank alone writes it, where there is one.
    """
    readers: dict[str, RemoteHost] = {}
    for alone in (True, False):
        for host in hosts:
            for log, is_own in host.logs.items():
                if is_own or not alone:
                    readers.setdefault(log, host)
    return {
        (host.channel, host.own_name): [log for log in host.logs if readers[log] is not host]
        for host in hosts
    }


def how_far(doing: str, late: Sequence[RemoteHost], hosts: Sequence[RemoteHost]) -> str:
    """Say for people how many hosts have answered, and of a few others what they do or why not.

    One line a host below the first; ``late`` are those that are waited for, furthest behind first.
    """
    late = sorted(late, key=lambda host: (host.alive, host.ready))
    lost = [host for host in hosts if host.gap is not None]
    answered = len(hosts) - len(late) - len(lost)
    lines = [f"{doing}: {answered} of {counted(len(hosts), 'host')} answered"]
    lines += _few([f"{host.name}: {host.phase}" for host in late], "waited for")
    lines += _few([f"{host.name}: {host.gap.why}" for host in lost if host.gap], "given up")
    return "\n".join(lines)


def _few(lines: Sequence[str], what: str) -> list[str]:
    more = len(lines) - MOST_NAMED
    return [*lines[:MOST_NAMED], *([f"+{more:,} more {what}"] if more > 0 else [])]


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
        what=f"looking at {counted(count - known, 'other host')} of the job",
        why=f"it runs on {count} hosts, and only {known} of them could be learnt",
        cost="what their ranks do is not known",
        remedy="name them: whyhang PID --hosts n[1-8], or collect on each by hand",
    )


def ended(name: str, kind: str, code: int | None, errors: str, *, alive: bool) -> Gap:
    """Return why the command that reaches a host has ended, from what it printed."""
    lines = [line for line in errors.splitlines() if line.strip()]
    if failure := failure_of(_tool(kind), errors):
        return host_gap(name, failure.why, failure.remedy.format(name=name))
    if lines:
        return host_gap(name, f"{kind} said: {plain(lines[-1])}", "")
    how = "was killed" if code is None or code > 128 else f"ended with code {code}"
    return host_gap(name, f"what ran there {how}" if alive else f"the command {how}", "")


def is_silent(kind: str, errors: str) -> bool:
    """Return whether the command that should reach a host has ended because nothing answered."""
    failure = failure_of(_tool(kind), errors)
    return failure is not None and failure.silent


def _tool(kind: str) -> str:
    return kind if kind in {"slurm", "kubernetes", "ray"} else "ssh"


def plain(text: str) -> str:
    """Return what came from a host as one short line of plain characters."""
    words = re.sub(r"[^\x20-\x7e]+", " ", text).split()
    return " ".join(words)[:LONGEST]
