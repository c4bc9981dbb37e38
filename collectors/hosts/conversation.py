"""What the far sides of a job are asked: to find its processes, to look at them, to look again.

What did answer counts; hosts without a process of the job become gaps.
"""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from whyhang.analyzer.facts import Gap, HostAddress, HostSilence, Source, Statement, Who
from whyhang.collectors.files.bundle import Bundle, Clock
from whyhang.collectors.hosts import remote_host
from whyhang.collectors.hosts.connections import Connections
from whyhang.collectors.hosts.merge import HostJobNumber, Parts
from whyhang.collectors.hosts.planners import ssh
from whyhang.collectors.hosts.reach import ReachedHost, resolved
from whyhang.collectors.hosts.remote_host import RemoteHost, host_gap, left_to_others, plain
from whyhang.collectors.hosts.wire import Answer
from whyhang.collectors.live.capture import More, Named
from whyhang.collectors.live.probes.probe import Options

MOST_NEW = 4096
"""Hosts that others may name: more than any job has."""

ENOUGH = 2.0
"""Seconds that have to be left for another question."""

WRONG_CLOCK = 2.0
"""Seconds by which a clock is off before it is worth a word."""


class Conversation:
    """A job on the hosts of ``connections``, asked there; ``parts`` is what they have sent.

    ``interrupted``: Ctrl-C has come, and only what is under way is awaited.
    """

    def __init__(
        self,
        connections: Connections,
        options: Options,
        *,
        patterns: Iterable[str] = (),
        whole: bool = False,
    ) -> None:
        self.connections = connections
        self.reach = connections.reach
        self.gaps = connections.gaps
        self.parts = Parts()
        self._options = options
        self._patterns = sorted(patterns)
        self._whole = whole
        self.interrupted = False
        connections.handlers |= {"found": self._take_processes, "part": self._part}

    def find(self) -> None:
        """Reach all hosts, and have each find the processes of the job.

        Where a host knows of others that the job runs on, these are reached, too. Ctrl-C ends the
        reaching: who has answered by then is looked at, unless it comes again.
        """
        self._reach(self.reach.hosts)
        self._find()
        while self.reach.grows and not self.interrupted and (names := self._new_names()):
            self._reach([ssh.host(name, connect=ssh.CONNECT) for name in names])
            self._find()
        known = len(self.connections.hosts)
        if self.reach.count is not None and known < self.reach.count:
            self.gaps.append(remote_host.not_all_known(known, self.reach.count))

    def _reach(self, hosts: Sequence[ReachedHost]) -> None:
        try:
            self.connections.open(hosts)
        except KeyboardInterrupt:
            if not self.connections.ready:
                raise
            self.interrupted = True
            self.connections.give_up_unready("it had not answered when Ctrl-C came")

    def look(self) -> None:
        """Have all take their snapshots at the same moment."""
        ready = self.connections.ready
        job = self._one_job(ready)
        others = left_to_others(ready)
        for some in self._alike(ready, lambda host: others[host.channel, host.own_name]):
            theirs = {host.own_name: others[host.channel, host.own_name] for host in some}
            self.connections.order(some, "look", job=job, others_logs=theirs)
        self.connections.wait("looking")

    def look_more(self, count: int, *, spacing: float = 1.0) -> None:
        """Have all hosts take further snapshots."""
        self._ask("look_more", count=count, spacing=spacing)

    def take_more(self, what: More, processes: Iterable[Named]) -> None:
        """Have hosts take more of their processes, each of its own."""
        self._ask(what, processes)

    def bundle(self) -> Bundle:
        """Return what has come of all hosts, and what is missing, as one bundle."""
        hosts = self.connections.hosts
        gaps = [*self.gaps, *(host.gap for host in hosts if host.gap is not None)]
        clocks: list[Clock] = []
        for host in hosts:
            if host.offset is None or host.round_trip is None:
                continue
            ahead, within = round(host.offset, 3), round(host.round_trip / 2, 3)
            clocks.append(Clock(host=host.name, ahead=ahead, within=within))
            if abs(ahead) > max(WRONG_CLOCK, within):
                gaps.append(_clock_differs(host.name, ahead))
        names = [host.name for host in hosts]
        silent = list(_silence(host for host in hosts if host.silent))
        return self.parts.bundle(gaps, names, self.reach.printed, clocks, silent)

    def _ask(self, what: str, processes: Iterable[Named] = (), **how: float) -> None:
        """Ask while there is time. Ctrl-C ends the asking: what has come is diagnosed."""
        if self.interrupted or self.connections.left() < ENOUGH:
            return
        pids: dict[str, list[int]] = {}
        ready = self.connections.ready
        by_name = {each: host for host in ready for each in (host.name, host.node)}
        for name, pid in processes:
            host = by_name.get(name or "") or (ready[0] if len(ready) == 1 else None)
            if host is not None:
                pids.setdefault(host.own_name, []).append(pid)
        asked = [host for host in ready if how or host.own_name in pids]
        self.connections.order(asked, "ask", what=what, pids=pids, **how)
        try:
            self.connections.wait(f"asking for {what.replace('_', ' ')}")
        except KeyboardInterrupt:
            self.interrupted = True

    def _find(self) -> None:
        ready = self.connections.ready
        new = [host for host in ready if not host.asked]
        nodes = Counter(host.node for host in ready)
        for some in self._alike(new, lambda host: nodes[host.node] > 1 or host.host.pids):
            self.connections.order(
                some,
                "find",
                selector=msgspec.to_builtins(self.reach.selector),
                options=msgspec.to_builtins(self._options),
                called={host.own_name: host.name for host in some if nodes[host.node] > 1},
                pids={host.own_name: host.host.pids for host in some if host.host.pids},
                grows=self.reach.grows,
                patterns=self._patterns,
                whole=self._whole,
                deadline=self.connections.left() + 5,
            )
        self.connections.wait("finding the job")
        for host in new:
            host.asked = True
            if host.gap is None and not host.jobs:
                host.gap = host_gap(
                    host.name,
                    "no process of the job was found there",
                    "Its ranks may have ended or never begun: look at their logs there",
                )

    def _one_job(self, hosts: Iterable[RemoteHost]) -> str | None:
        """Return the job to look at, where hosts have several: the one with the most processes."""
        ranks: Counter[str] = Counter()
        for host in hosts:
            ranks.update({name: max(1, count) for name, count in host.jobs.items()})
        if len(ranks) < 2:
            return None
        chosen = max(ranks, key=lambda name: ranks[name])
        self.gaps += (
            Gap(
                what=f"looking at the job {plain(name)} ({ranks[name]} processes)",
                why="another job has more processes on these hosts, and one is looked at a time",
                cost="it was left out",
                remedy="On one of its hosts: whyhang PID of one of its processes",
            )
            for name in ranks
            if name != chosen
        )
        return chosen

    def _new_names(self) -> list[str]:
        """Return the hosts that others have named and that nobody has tried yet."""
        hosts = self.connections.hosts
        tried = {name for host in hosts for name in (host.name, host.node, *host.own)}
        names = dict.fromkeys(name for host in hosts for name in host.others)
        return [name for name in names if name not in tried][:MOST_NEW]

    def _alike(
        self, hosts: Sequence[RemoteHost], has_own: Callable[[RemoteHost], object]
    ) -> list[list[RemoteHost]]:
        """Group hosts that get one and the same order: those with nothing of their own."""
        if self.reach.together:
            return [list(hosts)]
        own = [[host] for host in hosts if has_own(host)]
        return [[host for host in hosts if not has_own(host)], *own]

    def _take_processes(self, host: RemoteHost, answer: Answer) -> None:
        host.busy = False
        host.own, host.logs = answer.own, answer.logs
        host.others += filter(ssh.is_name, answer.others[:MOST_NEW])
        host.jobs |= {job.name: job.ranks for job in answer.jobs}

    def _part(self, host: RemoteHost, answer: Answer) -> None:
        trouble = self.parts.add(HostJobNumber(host.name, answer.number), answer.blob)
        if trouble:
            why = f"what it sent cannot be read: {trouble}"
            self.connections.give_up(host, host_gap(host.name, why, "Collect there by hand"))
        else:
            host.sent = True


def _silence(hosts: Iterable[RemoteHost]) -> Iterator[Statement]:
    """Yield that these hosts gave no answer, and the addresses at which they should be."""
    why = {host.name: host.gap.why for host in hosts if host.gap is not None}
    bare = {name: name.rpartition("@")[2] for name in why}
    addresses = resolved(bare.values(), socket.gethostbyname)
    source = Source(file="hosts.claims.json")
    for name, said in why.items():
        who = Who(host=bare[name])
        yield HostSilence(why=said, who=who, source=source)
        if address := addresses.get(bare[name]):
            yield HostAddress(address=address, who=who, source=source)


def _clock_differs(name: str, ahead: float) -> Gap:
    return host_gap(
        name,
        f"its clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this host's",
        "Set the clocks (chronyc tracking there)",
        what="comparing times of host",
        cost="what its logs say happened before or after events on other hosts is off by as much",
    )
