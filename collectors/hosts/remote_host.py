"""What is known of one host while it is talked to, and in words of all of them."""

from collections.abc import Sequence

from whyhang.analyzer.facts import Gap, counted
from whyhang.collectors.hosts.reach import Host

MOST_NAMED = 4
"""Hosts that the line of progress names."""


class RemoteHost:
    """A host and the far side that runs there, from the first attempt to reach it.

    ``channel`` is the command that reaches it, alone or with others; ``own_name`` is what it calls
    itself on the wire, ``node`` what its system calls it. ``alive``: it gave a sign of life,
    ``ready``: whyhang runs there, ``busy``: it has an order to answer, ``sent``: it sent evidence.
    """

    def __init__(self, host: Host, channel: str) -> None:
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


def how_far(doing: str, late: Sequence[RemoteHost], count: int) -> str:
    """Say for people how many of ``count`` hosts have answered, and which have not."""
    names = [host.name for host in late]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    waits = f"; waiting for {', '.join(names[:MOST_NAMED])}{more}" if names else ""
    return f"{doing}: {count - len(names)} of {counted(count, 'host')} answered{waits}"
