"""Launchers with a rendezvous of their own: what their command lines ask for, how far they are.

torchrun starts an agent on each node; the agents meet, and only then does each start its ranks.
While they meet there is no rank to inspect, so the agent's own command line, environment and
sockets have to tell. The options stand in ``launchers.toml``; each may also come as
``PET_<NAME>``.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.facts import Agent, Process, Record, Who, replace, whole
from whyhang.analyzer.job.launchers import MEETING, OPTIONS, PROGRAMS
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.job.sockets import tcp_sockets

_OPTION = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_FLAGS = frozenset(OPTIONS.flags.split())
_WANTED = frozenset(OPTIONS.wanted.split())


class Plan(Record):
    """The options of a launcher; texts as they were given, under torchrun's names."""

    options: dict[str, str]

    def number(self, name: str) -> int | None:
        """Return an option that is a whole number."""
        return whole(self.options.get(name))

    def nodes(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest number of nodes: "2" and "1:4" are both allowed."""
        least, _, most = self.options.get("nnodes", "").partition(":")
        return whole(least), whole(most) or whole(least)

    def node_rank(self) -> int | None:
        """Return the node's number; a static rendezvous goes by it, and 0 is its default."""
        rank = self.number("node_rank")
        return 0 if rank is None and self.backend() == "static" else rank

    def backend(self) -> str:
        """Name the kind of rendezvous; torchrun's default is static."""
        alone = "standalone" in self.options
        return "c10d" if alone else self.options.get("rdzv_backend", "static")

    def endpoint(self) -> str | None:
        """Return where the agents meet."""
        backend, endpoint = self.backend(), self.options.get("rdzv_endpoint", "")
        port = OPTIONS.default_ports.get(backend)
        if backend == "static" and not endpoint:
            host = self.options.get("master_addr", "127.0.0.1")
            return f"{host}:{self.options.get('master_port', port)}"
        if not endpoint or port is None or re.search(r":\d+$", endpoint):
            return endpoint or None
        return f"{endpoint}:{port}"

    def given_endpoint(self) -> tuple[str, int] | None:
        """Return host and port where the agents meet; None where nobody has named a host."""
        if not {"rdzv_endpoint", "master_addr"} & self.options.keys():
            return None
        name, _, port = (self.endpoint() or "").rpartition(":")
        number = whole(port)
        return (name.strip("[]"), number) if name and number is not None else None


def plan_of(command: str, environ: Mapping[str, str]) -> Plan | None:
    """Read a launcher's command line; None where it is none that meets others."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    return plan_of_agent(words, environ) if any(map(_runs_agent, words[:6])) else None


def plan_of_agent(words: Sequence[str], environ: Mapping[str, str]) -> Plan:
    """Read the command line of what is known to be a launcher that meets others."""
    given = {name[4:].lower(): value for name, value in environ.items() if name.startswith("PET_")}
    given |= dict(_options(words))
    processes, machines = whole(given.get("num_processes")), whole(given.get("nnodes", "1"))
    if "nproc_per_node" not in given and processes is not None and machines is not None:
        given["nproc_per_node"] = str(processes // max(1, machines))
    if not any("accelerate" in word for word in words[:6]):  # its own default is in a file
        given.setdefault("nnodes", "1:1")
    return Plan(options={name: given[name] for name in sorted(given) if name in _WANTED})


def _runs_agent(word: str) -> bool:
    names = (word, word.rpartition("/")[2], "/".join(word.split("/")[-3:]))
    return any(PROGRAMS.get(name) in MEETING for name in names)


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the launcher's own options; those behind the name of the script are the script's.

    A launcher may be a script itself.
    """
    begins = (i for i, word in enumerate(words) if _runs_agent(word) or word.endswith(".py"))
    start = next(begins, 0) + 1
    rest = iter(words[start:])
    for word in rest:
        match = _OPTION.fullmatch(word)
        if match is not None:
            name = match[1].replace("-", "_")
            name, value = OPTIONS.same.get(name, name), match[2]
            if value is None:
                value = "" if name in _FLAGS else next(rest, "")
            yield name, value
        elif word != "launch":  # of ``accelerate launch``
            return


def agents_of(launchers: Iterable[Child], meeting: Iterable[bool | None]) -> Iterator[Agent]:
    """Yield the agents among the launchers of a job; ``meeting`` says which wait in rendezvous."""
    for launcher, meets in zip(launchers, meeting, strict=True):
        process = launcher.processes[-1] if launcher.processes else None
        plan = plan_of(process.command, process.environ) if process is not None else None
        if process is None or plan is None:
            continue
        least, most = plan.nodes()
        yield Agent(
            who=process.who,
            source=process.source,
            quote=f"pid {process.who.pid}: {process.command}",
            backend=plan.backend(),
            min_nodes=least,
            max_nodes=most,
            per_node=plan.number("nproc_per_node"),
            node_rank=plan.node_rank(),
            endpoint=plan.endpoint(),
            run_id=plan.options.get("rdzv_id"),
            meeting=meets,
            reached=_reached(process, plan),
            joined=_joined(process, plan),
        )


def each_once(logged: Sequence[Agent], seen: Iterable[Agent]) -> tuple[Agent, ...]:
    """Join the agents that logs tell of with those that were seen; of one process there is one.

    What it was told is surer from its command line, how often it started its ranks only a log says.
    """
    known, rest = [], list(logged)
    for agent in seen:
        same = [one for one in rest if _is_same(one.who, agent.who)]
        rest = [one for one in rest if one not in same]
        known.append(replace(agent, restarts=same[-1].restarts if same else None))
    return (*rest, *known)


def _is_same(one: Who, other: Who) -> bool:
    """Return whether two facts are about one process: hosts have processes of the same pid."""
    hosts = {one.host, other.host} - {None}
    return one.pid is not None and one.pid == other.pid and len(hosts) < 2


def _reached(process: Process, plan: Plan) -> bool | None:
    """Return whether an agent holds the port where agents meet, or is connected to it."""
    port = whole((plan.endpoint() or "").rpartition(":")[2])
    if port is None or not process.descriptors:
        return None
    sockets = tcp_sockets(process)
    listens = any(s.state == "listen" and s.own.port == port for s in sockets)
    return listens or any(
        s.state == "established" and s.peer is not None and s.peer.port == port for s in sockets
    )


def _joined(process: Process, plan: Plan) -> int | None:
    """Count the nodes connected to the store of a static rendezvous, where this agent holds it.

    Each agent holds one connection to it, its owner too. Other kinds of rendezvous keep more
    than one, and those of strangers.
    """
    endpoint = plan.endpoint()
    if plan.backend() != "static" or endpoint is None:
        return None
    own = [s for s in tcp_sockets(process) if str(s.own.port) == endpoint.rpartition(":")[2]]
    served = [s.count for s in own if s.state == "established"]
    return sum(served) if any(s.state == "listen" for s in own) else None
