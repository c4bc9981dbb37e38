"""torchrun's agent in its log: what it was told, whether the nodes have met, its restarts.

With INFO (``LOGLEVEL=INFO``) an agent prints its settings, "Rendezvous'ing worker group" when it
begins to wait for the other nodes and "Rendezvous complete for workers" when all are there
(torch 1.9 to 2.15, ``launcher/api.py``, ``elastic/agent/server/api.py``).
"""

from collections.abc import Iterator

from whyhang.analyzer.facts import Agent, Fact, Who, replace
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

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
            min_nodes=_whole(settings.get("min_nodes")),
            max_nodes=_whole(settings.get("max_nodes")),
            per_node=_whole(settings.get("nproc_per_node")),
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


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _node_rank(settings: dict[str, str]) -> int | None:
    """Read the node's number out of a static rendezvous's settings: {'rank': 1, 'timeout': 900}."""
    _, key, rest = settings.get("rdzv_configs", "").partition("'rank': ")
    digits = rest.partition(",")[0].rstrip("} ")
    return int(digits) if key and digits.isdecimal() else None
