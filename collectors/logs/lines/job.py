"""What a log says of the job as a whole: its size, launcher, backend, versions, and its start.

With INFO (``LOGLEVEL=INFO``) torchrun's agent prints its settings, "Rendezvous'ing worker group"
when it begins to wait for the other nodes and "Rendezvous complete for workers" when all are there
(torch 1.9 to 2.15, ``launcher/api.py``, ``elastic/agent/server/api.py``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Literal

from whyhang.analyzer import toml
from whyhang.analyzer.facts import (
    NOBODY,
    Address,
    Agent,
    Fact,
    InitArguments,
    Record,
    Setting,
    Source,
    StartedAgain,
    Who,
    WorldSize,
    replace,
    unfold,
    whole,
)
from whyhang.analyzer.job.launchers import PER_NODE
from whyhang.collectors import tables
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

_What = Literal["size", "per-node", "tasks", "meeting", "torch", "backend", "launcher"]


class _Table(Record):
    """By which patterns a line tells what: by the group in them, or by what they all mean."""

    told: dict[_What, tuple[str, ...]]
    means: dict[_What, dict[str, tuple[str, ...]]]


_TABLE = toml.read(__package__, "job.toml", _Table)
_TELLS: dict[str, tuple[_What, str | None]] = {
    **{pattern: (what, None) for pattern, what in tables.by_pattern(_TABLE.told).items()},
    **{
        pattern: (what, value)
        for what, values in _TABLE.means.items()
        for pattern, value in tables.by_pattern(values).items()
    },
}
_SETTINGS: tuple[Literal["backend", "torch"], ...] = ("backend", "torch")
_NUMBERS = {"two": "2", "three": "3", "four": "4", "six": "6", "eight": "8"}
_NODE_RANK = "--node_rank"
MAX_VALUES = 100  # that a file tells of one thing


class JobReader(LineReader):
    """Collects what lines say of the whole job, each statement once."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._told: defaultdict[_What, dict[str, Source]] = defaultdict(dict)
        self._times: Counter[tuple[_What, str]] = Counter()
        self._nodes: int | None = None
        self._node_counts: set[int] = set()  # as commands give them

    @wants(*_TELLS)
    def on_told(self, line: FoundLine, match: Match) -> None:
        """Note a value, with the first line that tells it."""
        what, value = _TELLS[match.re.pattern]
        if value is None:
            (value,) = match.groupdict().values()
        if len(self._told[what]) < MAX_VALUES and value.strip("0"):
            self._told[what].setdefault(value, line.source)
            self._times[what, value] += 1
        if what == "launcher":
            self._file.launchers.add(value)

    @wants(
        r"(?:--nnodes|--num_machines|--num_nodes|--node_rank|group_world_size)[= ](?P<nodes>\d+)"
    )
    def on_nodes(self, line: FoundLine, match: Match) -> None:
        """Note on how many hosts the job runs."""
        nodes = int(match["nodes"])
        if match[0].startswith(_NODE_RANK):
            nodes = 2 if nodes > 0 else 0  # the first node tells nothing
        if "group_world_size" in match[0] and nodes == 1:
            self._file.one_host = self._file.one_host is not False
        if nodes > 1:
            self._nodes = nodes
            self._file.one_host = False
        if not match[0].startswith(_NODE_RANK):
            self._node_counts.add(nodes)

    @wants(
        r"(?i)\b(?P<nodes>\d{1,4}|two|three|four|six|eight) (?:\w+ )?"
        r"(?:nodes|machines|servers|hosts)"
        r"[ ,(]{1,2}(?:(?:of|with|x|\u00d7|each|having|that have|which have) ){0,2}"
        r"(?P<gpus>\d{1,2}|two|three|four|six|eight) ?[x\u00d7*]? ?(?:[\w-]+ ){0,3}?GPUs\b"
    )
    def on_machines(self, line: FoundLine, match: Match) -> None:
        """Note the number of ranks that a person tells: "2 nodes with 8 GPUs each"."""
        nodes, gpus = (_NUMBERS.get(match[name].lower(), match[name]) for name in ("nodes", "gpus"))
        if int(nodes) > 1:
            self._file.one_host = False
            self._told["size"].setdefault(str(int(nodes) * int(gpus)), line.source)

    @wants(r"--standalone\b")
    def on_standalone(self, line: FoundLine, match: Match) -> None:
        """Note that all runs on one host."""
        if self._file.one_host is None:
            self._file.one_host = True

    @wants(r"--dist[-_]url[= ]\W{0,2}tcp://(?!127\.|localhost)")
    def on_remote(self, line: FoundLine, match: Match) -> None:
        """Note that the ranks meet at another host."""
        self._file.one_host = False

    @wants(r"local_ranks=\[(?P<local>[\d, ]+)\]")
    def on_rank_map(self, line: FoundLine, match: Match) -> None:
        """Read which global ranks the local ones of this host are (torchrun's rendezvous)."""
        local = unfold(match["local"])
        for _, after in line.following(3):
            _, key, rest = after.text.partition("global_ranks=[")
            if key:
                ranks = unfold(rest.partition("]")[0])
                self._file.ranks.update(zip(local, ranks, strict=False))
                if ranks != local:
                    self._file.one_host = False

    def facts(self) -> Iterator[Fact]:
        """Yield each statement once."""
        self._count_ranks()
        for host, source in self._told["meeting"].items():
            yield InitArguments(address=Address(host=host), who=NOBODY, source=source)
        for size, source in self._most("size"):
            yield WorldSize(size=int(size), who=NOBODY, source=source)
        for name in _SETTINGS:
            for value, source in self._most(name):
                yield Setting(name=name, value=value, who=NOBODY, source=source)
        for launcher, source in self._told["launcher"].items():
            yield Setting(name="launcher", value=launcher, who=NOBODY, source=source)

    def _most(self, what: _What) -> Iterator[tuple[str, Source]]:
        """Yield the value that most lines tell; others are of parts of the job."""
        values = self._told[what]
        for value in sorted(values, key=lambda value: -self._times[what, value])[:1]:
            yield value, values[value]

    def _count_ranks(self) -> None:
        """Note the number of ranks, where commands tell it and no other line does."""
        if self._told["per-node"]:
            size, source = next(iter(self._told["per-node"].items()))
            if self._file.one_host is None and self._nodes is None:
                self._file.one_host = True
            nodes = 1 if self._nodes is None and self._file.one_host else 0
            if self._nodes is not None and self._node_counts == {self._nodes}:
                nodes = self._nodes
            if nodes and not self._told["size"]:
                self._told["size"][str(nodes * int(size))] = source
        labelled = self._file.voice.size
        if labelled is not None and not self._told["size"]:
            self._told["size"][str(labelled)] = self._file.document.source(1)
        tasks = self._told["tasks"]
        if not self._told["size"] and len(tasks) == 1 and PER_NODE.isdisjoint(self._file.launchers):
            self._told["size"] = tasks


class CommandReader(LineReader):
    """Finds where the paste of a terminal has the same prompt and command for the last time."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._seen: set[tuple[str, str]] = set()
        self._again: StartedAgain | None = None

    @wants(
        r"^(?P<prompt>\(?[\w.@\[\]() -]{1,60}[:\s][^\s$#>]{0,80}[$#>]) (?:[A-Z_][A-Z0-9_]*=\S* )*"
        r"(?P<command>(?:torchrun|deepspeed|mpirun|mpiexec|srun|accelerate|horovodrun"
        r"|python3? -m torch\.dist)\b.*)"
    )
    def on_command(self, line: FoundLine, match: Match) -> None:
        """Note a command that was given before; other options may be another node of the job."""
        given = (match["prompt"], match["command"].strip())
        if given in self._seen:
            self._again = StartedAgain(who=NOBODY, source=line.source)
        self._seen.add(given)

    def facts(self) -> Iterator[Fact]:
        """Yield where the job was started for the last time."""
        if self._again is not None:
            yield self._again


MAX_AGENTS = 10_000
_LINES = 24  # of the settings


class ElasticReader(LineReader):
    """Collects one agent per process that speaks."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._agents: dict[tuple[str | None, int | None], Agent] = {}

    @wants(r"Starting elastic_operator with launch configs")
    def on_settings(self, line: FoundLine, match: Match) -> None:
        """Read the settings, a line each behind this one."""
        settings: dict[str, str] = {}
        for _, after in line.following(_LINES):
            name, colon, value = after.text.rpartition("] ")[2].partition(":")
            if not colon:
                break
            settings[name.strip()] = value.strip()
        self._keep(
            line,
            backend=settings.get("rdzv_backend"),
            min_nodes=whole(settings.get("min_nodes")),
            max_nodes=whole(settings.get("max_nodes")),
            per_node=whole(settings.get("nproc_per_node")),
            node_rank=_node_rank(settings),
            endpoint=settings.get("rdzv_endpoint"),
            run_id=settings.get("run_id"),
        )

    @wants(r"\] Rendezvous'ing worker group")
    def on_meets(self, line: FoundLine, match: Match) -> None:
        """Note that it waits for other nodes from here on."""
        self._keep(line, meeting=True, quote=line.text, source=line.source)

    @wants(r"\] Rendezvous complete for workers\. Result")
    def on_met(self, line: FoundLine, match: Match) -> None:
        """Note that all nodes were there."""
        self._keep(line, meeting=False)

    @wants(r"\] Worker group \w+\. (?P<left>\d+)/(?P<most>\d+) attempts left; will restart")
    def on_restarts(self, line: FoundLine, match: Match) -> None:
        """Note how often it has started its ranks anew."""
        self._keep(line, restarts=int(match["most"]) - int(match["left"]))

    @wants(r"Rendezvous(?:Timeout|Closed|Connection|State)Error|SignalException|ChildFailedError")
    def on_ended(self, line: FoundLine, match: Match) -> None:
        """Note that nobody of this file waits any more."""
        for key, agent in self._agents.items():
            self._agents[key] = replace(agent, meeting=False)

    def _keep(self, line: FoundLine, **changes: object) -> None:
        key = (line.who.host, line.who.pid)
        agent = self._agents.get(key)
        if agent is None:
            if len(self._agents) >= MAX_AGENTS:
                return
            who = Who(host=line.who.host, pid=line.who.pid)
            agent = Agent(who=who, source=line.source, quote=line.text)
        self._agents[key] = replace(agent, **changes)

    def facts(self) -> Iterator[Fact]:
        """Yield each agent with where it stands at the end of the log."""
        yield from self._agents.values()


def _node_rank(settings: dict[str, str]) -> int | None:
    """Read the node's number out of a static rendezvous's settings: {'rank': 1, 'timeout': 900}."""
    rest = settings.get("rdzv_configs", "").partition("'rank': ")[2]
    return whole(rest.partition(",")[0].rstrip("} "))
