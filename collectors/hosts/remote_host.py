"""What is known of one host while it is talked to, and in words of all of them."""

from collections.abc import Sequence

from whyhang.analyzer.facts import Gap, counted
from whyhang.collectors.hosts.reach import ReachedHost

MOST_NAMED = 4
"""Hosts that progress names, of those waited for and of those given up."""


class RemoteHost:
    """A host and the far side that runs there, from the first attempt to reach it.

    ``channel`` is the command that reaches it, alone or with others; ``own_name`` is what it calls
    itself on the wire, ``node`` what its system calls it. ``alive``: it gave a sign of life,
    ``ready``: whyhang runs there, ``busy``: it has an order to answer, ``sent``: it sent evidence.
    """

    def __init__(self, host: ReachedHost, channel: str) -> None:
        self.host = host
        self.channel = channel
        self.own_name = ""
        self.node = ""
        self.alive = False
        self.ready = False
        self.busy = False
        self.sent = False
        self.gap: Gap | None = None
        self.offset: float | None = None  # seconds that its clock is ahead
        self.round_trip: float | None = None
        self.asked = False
        self.jobs: dict[str, int] = {}  # ranks by the name of the job
        self.logs: dict[str, bool] = {}  # by path: whether a rank there alone writes it
        self.own: list[str] = []  # its addresses
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
